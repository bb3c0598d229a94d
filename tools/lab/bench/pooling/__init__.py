"""The pooling part of `make bench`: embeddings of MiniLM, from Braid and from its peers."""
