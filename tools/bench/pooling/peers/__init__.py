"""Peers that give vectors in a process of their own, for `tools/bench/pooling/child.py`."""
