"""The embedded demo chat model: its corpus, tokenizer, training, evaluation and export.

Run by people as `python -m tools.train_demo`; nothing of Braid imports it.
"""
