"""How an exported file is run: which backend opens which file, and what backends share.

A backend implements the protocols of `pipelines.inference.contracts` and does not know the engine.
"""
