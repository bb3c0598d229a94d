"""Sizes and prompts that training and evaluation share."""

SIZE = 128
"""Size of an embedding."""
DIMENSIONS = (32, 64, SIZE)
"""Sizes of the beginnings of `braid-embed`'s embeddings that are also embeddings."""
MAX_TOKENS = 256
"""Maximum tokens of a text or a pair."""
PROMPTS = {"query": "query: ", "document": "document: "}
"""Purpose of an embedding → prompt before its text."""
