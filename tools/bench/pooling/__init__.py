"""The pooling part of `make bench`: vectors of MiniLM, from Braid and from its peers."""
