"""What training and evaluation must agree on."""

SIZE = 128
"""Numbers of a vector."""
DIMENSIONS = (32, 64, SIZE)
"""How many of the first numbers of `braid-embed`'s vectors are a vector, too."""
MAX_TOKENS = 256
"""Of one text, or of a pair."""
PROMPTS = {"query": "query: ", "document": "document: "}
"""What may stand before a text, by what its vector is for."""
