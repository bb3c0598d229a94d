"""The blocks of the paged key-value cache: ownership, prefix reuse, copy-on-write, swap space."""
