"""Sizes in words for people."""

from __future__ import annotations


def shown_gb(num_bytes: int) -> str:
    """A number of bytes in GB, a small one in MB."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:.1f} MB"
