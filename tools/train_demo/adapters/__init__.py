"""Adapters of the demo chat model: their corpora, training and evaluation.

Run `python -m tools.train_demo.adapters`; not imported by Braid itself.
"""
