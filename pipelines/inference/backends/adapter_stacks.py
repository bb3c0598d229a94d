"""The adapters of a step side by side, as inputs of a model whose linear layers have room for them.

Behind each linear layer y of x with room for adapters a model computes y + ((x · A) * slot) · B: A[in, R] and
B[R, out] hold all adapters of the step, R is the sum of their ranks, and slot float32[tokens, R] is 1 in the
columns of a token's own adapter and 0 elsewhere.  With R = 0 nothing is added.  Where x has whole texts side
by side, [texts, width, in], all tokens of a text have its adapter: slot is float32[texts, 1, R].  A and B are
float32, or of the type in which the model computes.

The ends of the model, which may have as many columns as the model is wide, have a slot of their own each, and
compute keep * y + ((x · A) * slot) · B.  x of the head are the sampled rows; x · A of the embeddings are the
rows of A that the token ids name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.adapters.linear_names import ENDS, HEAD
from pipelines.adapters.weights import BASE, AdapterWeights, LinearShape

PREFIX = "adapters."
"""The beginning of the names of all inputs for adapters."""
SLOT = f"{PREFIX}slot"
FLOAT32 = np.dtype(np.float32)
MAX_SETS = 4
"""Sets of adapters whose stacks are stored: each is a copy of their weights."""

Arrays = dict[str, NDArray[Any]]


def a_name(linear: str) -> str:
    """The input for A of a linear layer."""
    return f"{PREFIX}a.{linear}"


def b_name(linear: str) -> str:
    """The input for B of a linear layer."""
    return f"{PREFIX}b.{linear}"


def slot_name(linear: str) -> str:
    """The input that says whose each row of a linear layer is: one for all layers, one for each end."""
    return f"{SLOT}.{linear}" if linear in ENDS else SLOT


def keep_name(end: str) -> str:
    """The input float32[rows, 1] for what remains of an end's own linear layer: 1, and 0 where it is
    replaced.
    """
    return f"{PREFIX}keep.{end}"


def _by_slot(linears: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """The linear layers that have one slot, with its name."""
    for slot, names in groupby(sorted(linears, key=slot_name), slot_name):
        yield slot, list(names)


def _num_columns(adapter: AdapterWeights, linears: Iterable[str]) -> int:
    """How many columns an adapter has in the inputs of some linear layers."""
    own = (adapter.linears[linear] for linear in linears if linear in adapter.linears)
    return max((len(each.a) for each in own), default=0)


class AdapterStack:
    """The adapters of one set.  `arrays` are the inputs for A and B of all linear layers."""

    def __init__(
        self,
        adapters: Mapping[int, AdapterWeights],
        linears: Mapping[str, LinearShape],
        dtype: np.dtype[Any] = FLOAT32,
    ) -> None:
        self._dtype = dtype
        self.numbers = frozenset(adapters)
        self._row_of = {number: row for row, number in enumerate([*adapters, BASE])}
        self.arrays: Arrays = {}
        self._rows: Arrays = {}  # input that says whose a row is → what it says for each adapter and the base
        self.num_columns = 0
        for slot, names in _by_slot(linears):
            self._stack(slot, names, list(adapters.values()), linears)

    def _stack(
        self,
        slot: str,
        names: list[str],
        adapters: list[AdapterWeights],
        linears: Mapping[str, LinearShape],
    ) -> None:
        """Put the adapters side by side in the inputs of linear layers that have one slot."""
        ends = np.cumsum([0, *(_num_columns(adapter, names) for adapter in adapters)])
        rows = self._rows[slot] = np.zeros((len(adapters) + 1, int(ends[-1])), np.float32)
        self.num_columns += int(ends[-1])
        for name in names:
            a = self.arrays[a_name(name)] = np.zeros((linears[name].size_in, ends[-1]), self._dtype)
            b = self.arrays[b_name(name)] = np.zeros((ends[-1], linears[name].size_out), self._dtype)
            keep = np.ones((len(adapters) + 1, 1), np.float32)
            for row, adapter in enumerate(adapters):
                rows[row, ends[row] : ends[row + 1]] = 1
                if (own := adapter.linears.get(name)) is not None:
                    columns = slice(ends[row], ends[row] + len(own.a))
                    a[:, columns], b[columns] = own.a.T, own.b.T
                    keep[row] = not own.replaces
            if name in ENDS:
                self._rows[keep_name(name)] = keep

    def slot(
        self,
        adapters: NDArray[np.int32],
        num_new: NDArray[np.int32],
        num_tokens: int,
        logit_rows: NDArray[np.int64],
    ) -> Arrays:
        """The inputs that say whose each row is: `num_new[i]` tokens of the adapter `adapters[i]`, then
        tokens of the base up to `num_tokens`; the head has the rows `logit_rows` of them.
        """
        rows = [self._row_of[number] for number in adapters.tolist()] + [self._row_of[BASE]]
        tokens = np.repeat(rows, np.append(num_new, num_tokens - num_new.sum()))
        of_head = (slot_name(HEAD), keep_name(HEAD))
        return {
            name: stack[tokens[logit_rows] if name in of_head else tokens]
            for name, stack in self._rows.items()
        }


class AdapterStacks:
    """The adapters that a session holds, and the stacks of the sets of them that its last steps had."""

    def __init__(self, linears: Mapping[str, LinearShape], dtype: np.dtype[Any] = FLOAT32) -> None:
        """`dtype`: of A and B, as the model reads them."""
        self._linears, self._dtype = linears, dtype
        self._adapters: dict[int, AdapterWeights] = {}
        self._num_columns: dict[int, int] = {}
        self.base = AdapterStack({}, linears, dtype)
        self._stored: OrderedDict[frozenset[int], AdapterStack] = OrderedDict()
        self._last = self.base

    def put(self, number: int, weights: AdapterWeights) -> None:
        self._adapters[number] = weights
        groups = _by_slot(self._linears)
        self._num_columns[number] = sum(_num_columns(weights, names) for _, names in groups)

    def drop(self, number: int) -> None:
        self._adapters.pop(number, None)
        self._num_columns.pop(number, None)
        self._stored = OrderedDict((key, one) for key, one in self._stored.items() if number not in key)
        if number in self._last.numbers:
            self._last = self.base

    def of(self, adapters: NDArray[np.int32]) -> AdapterStack:
        """The stack for a step whose sequences have these; that of the last step where it serves as well."""
        wanted = frozenset(adapters.tolist()) - {BASE}
        if not wanted:
            return self.base
        needed = sum(self._num_columns[number] for number in wanted)
        if not (wanted <= self._last.numbers and self._last.num_columns <= 2 * needed):
            self._last = self._find(wanted)
        return self._last

    def _find(self, wanted: frozenset[int]) -> AdapterStack:
        stack = self._stored.get(wanted)
        if stack is None:
            adapters = {number: self._adapters[number] for number in sorted(wanted)}
            stack = self._stored[wanted] = AdapterStack(adapters, self._linears, self._dtype)
        self._stored.move_to_end(wanted)
        while len(self._stored) > MAX_SETS:
            self._stored.popitem(last=False)
        return stack
