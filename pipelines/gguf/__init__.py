"""GGUF files → folders in Braid's own form: weights, graph, tokenizer, and the cache of such folders."""
