"""The embedded pooling models: a reranker, a classifier of reviews, an encoder, and topics over it.

Run by people as `python -m tools.train_demo.pooling`; nothing of Braid imports it.
"""
