"""Divides the CPUs of a machine between engine hosts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, groupby
from typing import TypeVar

from pipelines.base.cpu_cores import Core

Item = TypeVar("Item")


def divide(cores: Sequence[Core], num_shares: int) -> list[frozenset[int]]:
    """The CPUs of each share: whole cores, as many as the others have, one more or one less.

    `cores` are in the order of their nodes.  Where the numbers of nodes and of shares allow it no share has
    cores of two nodes, or each has whole nodes.  Raises ValueError for more shares than cores.
    """
    if num_shares > len(cores):
        raise ValueError(f"{num_shares} engines need as many CPU cores, and this machine has {len(cores)}")
    nodes = [list(group) for _, group in groupby(cores, key=lambda core: core.node)]
    per_node, rest = divmod(num_shares, len(nodes))
    if rest or any(len(node) < per_node for node in nodes):
        if len(nodes) % num_shares:
            nodes, per_node = [list(cores)], num_shares
        else:
            nodes, per_node = [list(chain(*part)) for part in _parts(nodes, num_shares)], 1
    return [
        frozenset(cpu for core in part for cpu in core.cpus)
        for node in nodes
        for part in _parts(node, per_node)
    ]


def _parts(items: Sequence[Item], num_parts: int) -> list[Sequence[Item]]:
    """Consecutive items, the longer parts first."""
    size, longer = divmod(len(items), num_parts)
    ends = [size * i + min(i, longer) for i in range(num_parts + 1)]
    return [items[ends[i] : ends[i + 1]] for i in range(num_parts)]
