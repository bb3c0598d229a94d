"""The embedded pooling models: a reranker, a classifier of reviews, an encoder, and topics over it.

Run `python -m tools.train_demo.pooling`; not imported by Braid itself.
"""
