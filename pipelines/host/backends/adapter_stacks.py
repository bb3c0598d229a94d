"""The adapters of a step side by side, as inputs of a model whose products have room for them.

Behind each product y of x with room for adapters a model computes y + ((x · A) * slot) · B: A float32[in, R]
and B float32[R, out] hold all adapters of the step, R is the sum of their ranks, and slot float32[tokens, R]
is 1 in the columns of a token's own adapter and 0 elsewhere.  With R = 0 nothing is added.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pipelines.adapters.weights import BASE, AdapterWeights, ProductShape

SLOT = "adapters.slot"
MAX_SETS = 4
"""Sets of adapters whose stacks are stored: each is a copy of their weights."""

Arrays = dict[str, NDArray[np.float32]]


def a_name(product: str) -> str:
    """The input for A of a product."""
    return f"adapters.a.{product}"


def b_name(product: str) -> str:
    """The input for B of a product."""
    return f"adapters.b.{product}"


class AdapterStack:
    """The adapters of one set.  `arrays` are the inputs for A and B of all products."""

    def __init__(self, adapters: Mapping[int, AdapterWeights], products: Mapping[str, ProductShape]) -> None:
        self.numbers = frozenset(adapters)
        ends = np.cumsum([0, *(adapter.rank for adapter in adapters.values())])
        self.rank = int(ends[-1])
        self._rows = np.zeros((len(adapters) + 1, self.rank), np.float32)
        self._row_of = {BASE: len(adapters)}
        self.arrays: Arrays = {}
        for product, shape in products.items():
            self.arrays[a_name(product)] = np.zeros((shape.size_in, self.rank), np.float32)
            self.arrays[b_name(product)] = np.zeros((self.rank, shape.size_out), np.float32)
        for row, (number, adapter) in enumerate(adapters.items()):
            self._row_of[number] = row
            self._rows[row, ends[row] : ends[row + 1]] = 1
            for product, low_rank in adapter.products.items():
                columns = slice(ends[row], ends[row] + len(low_rank.a))
                self.arrays[a_name(product)][:, columns] = low_rank.a.T
                self.arrays[b_name(product)][columns] = low_rank.b.T

    def slot(self, adapters: NDArray[np.int32], num_new: NDArray[np.int32], num_tokens: int) -> Arrays:
        """The input that says whose each token is: `num_new[i]` tokens of the adapter `adapters[i]`, then
        tokens of the base up to `num_tokens`.
        """
        rows = [self._row_of[number] for number in adapters.tolist()] + [self._row_of[BASE]]
        return {SLOT: self._rows[np.repeat(rows, np.append(num_new, num_tokens - num_new.sum()))]}


class AdapterStacks:
    """The adapters that a session holds, and the stacks of the sets of them that its last steps had."""

    def __init__(self, products: Mapping[str, ProductShape]) -> None:
        self._products = products
        self._adapters: dict[int, AdapterWeights] = {}
        self.base = AdapterStack({}, products)
        self._stored: OrderedDict[frozenset[int], AdapterStack] = OrderedDict()
        self._last = self.base

    def put(self, number: int, weights: AdapterWeights) -> None:
        self._adapters[number] = weights

    def drop(self, number: int) -> None:
        self._adapters.pop(number, None)
        self._stored = OrderedDict((key, one) for key, one in self._stored.items() if number not in key)
        if number in self._last.numbers:
            self._last = self.base

    def of(self, adapters: NDArray[np.int32]) -> AdapterStack:
        """The stack for a step whose sequences have these; that of the last step where it serves as well."""
        wanted = frozenset(adapters.tolist()) - {BASE}
        if not wanted:
            return self.base
        rank = sum(self._adapters[number].rank for number in wanted)
        if not (wanted <= self._last.numbers and self._last.rank <= 2 * rank):
            self._last = self._find(wanted)
        return self._last

    def _find(self, wanted: frozenset[int]) -> AdapterStack:
        stack = self._stored.get(wanted)
        if stack is None:
            adapters = {number: self._adapters[number] for number in sorted(wanted)}
            stack = self._stored[wanted] = AdapterStack(adapters, self._products)
        self._stored.move_to_end(wanted)
        while len(self._stored) > MAX_SETS:
            self._stored.popitem(last=False)
        return stack
