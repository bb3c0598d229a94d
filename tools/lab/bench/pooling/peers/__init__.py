"""Peers that give vectors in a process of their own, for `tools/lab/bench/pooling/child.py`."""
