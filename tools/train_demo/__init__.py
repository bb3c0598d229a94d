"""The embedded demo chat model: its corpus, tokenizer, training, evaluation and export.

Run `python -m tools.train_demo`; not imported by Braid itself.
"""
