"""The shapes of the benchmark's models, as in transformers' config."""

from __future__ import annotations

QWEN3_06B = {
    "vocab_size": 151_936,
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
    "max_position_embeddings": 40_960,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": 151_935,
}
TINY = QWEN3_06B | {
    "vocab_size": 2048,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 128,
    "eos_token_id": 2047,
}
QWEN3_4B_12 = QWEN3_06B | {
    "hidden_size": 2560,
    "num_hidden_layers": 12,
    "num_attention_heads": 32,
    "intermediate_size": 9728,
    "tie_word_embeddings": True,
}
SHAPES = {"qwen3-0.6b": QWEN3_06B, "qwen3-4b-12": QWEN3_4B_12, "tiny": TINY}
"""Bigram models; `qwen3-4b-12` has 12 of the 36 layers of Qwen3-4B; `tiny` is for tests."""
SMALL = {
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 768,
}
DRAFTS = {
    "qwen3-0.6b": QWEN3_06B | SMALL,
    "qwen3-4b-12": QWEN3_4B_12 | SMALL,
    "tiny": TINY | {"num_hidden_layers": 1},
}
"""Shapes of draft models of these."""
AGREEMENT = 0.8
"""Share of the tokens for which the draft model has the same successor."""
RECIPE = 2
"""Increase when models are made differently, so that old ones are not reused."""
