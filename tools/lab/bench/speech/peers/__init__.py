"""Peers that turn sound into text in a process of their own, for `tools/lab/bench/speech/child.py`."""
