"""What an adapter is to an engine: two small matrices for each linear layer of the model that it changes.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021: y = W·x + B·(A·x).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BASE = 0
"""The load number of the model without an adapter; those of adapters begin at 1, and none is used twice."""

DIGEST_BYTES = 16
"""The size of the digest of an adapter's files."""


class AdapterError(ValueError):
    """An adapter that cannot be used: one sentence that names the tensor or the field, and what to do."""


@dataclass(frozen=True)
class LinearShape:
    """A linear layer of the model: from rows of `size_in` numbers to rows of `size_out`."""

    size_in: int
    size_out: int


@dataclass(frozen=True)
class LoraFactors:
    """What an adapter adds to a linear layer: b · (a · x).

    `a`: float32[rank, size_in]; `b`: float32[size_out, rank], in which the adapter's scale is contained.
    `replaces`: the model's own linear layer counts nothing beside it.
    """

    a: NDArray[np.float32]
    b: NDArray[np.float32]
    replaces: bool = False


@dataclass(frozen=True)
class AdapterWeights:
    """An adapter in memory.  `rank` is the largest in the model's layers, 0 where it changes none of them.
    Its linear layers are named as the model's: `layers.3.self_attn.q_proj`, `lm_head`.  `digest`:
    DIGEST_BYTES, that of its files; b"" where it has none.
    """

    rank: int
    linears: Mapping[str, LoraFactors]
    digest: bytes = b""

    @property
    def num_bytes(self) -> int:
        return sum(each.a.nbytes + each.b.nbytes for each in self.linears.values())


@dataclass(frozen=True)
class AdapterRoom:
    """What a model line allows: linear layers that `targets` name (as q_proj; none: all), `max_loaded`
    adapters in memory at a time, of `max_rank` at most.
    """

    targets: frozenset[str]
    max_loaded: int
    max_rank: int


class HoldsAdapters(Protocol):
    """What computes with adapters, by their load numbers.

    `linears`: those that an adapter may change; {} where none may.  All calls come between steps, from the
    thread that runs them.
    """

    @property
    def linears(self) -> Mapping[str, LinearShape]: ...

    def put_adapter(self, number: int, weights: AdapterWeights) -> None:
        """Hold an adapter for the steps that name `number`; short, it copies no weight."""

    def drop_adapter(self, number: int) -> None:
        """Free an adapter that no later step names; an unknown number is no error."""


class WithoutAdapters:
    """What can hold none (`HoldsAdapters`)."""

    linears: Mapping[str, LinearShape] = MappingProxyType({})

    def put_adapter(self, number: int, weights: AdapterWeights) -> None:
        raise ValueError("this model's graph has no `adapters`")

    def drop_adapter(self, number: int) -> None:
        """There is none."""
