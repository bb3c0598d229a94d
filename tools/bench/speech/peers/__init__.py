"""Peers that turn sound into text in a process of their own, for `tools/bench/speech/child.py`."""
