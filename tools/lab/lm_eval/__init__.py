"""`make lm-eval`: EleutherAI's lm-eval over Braid and over transformers, on the same weights.

The items are made here; lm-eval runs in an environment of its own.
"""
