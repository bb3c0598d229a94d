"""Gives a model the adapters of each step; a set of adapters is given once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.adapters.weights import AdapterWeights, LinearShape
from pipelines.inference.backends.adapter_stacks import FLOAT32, AdapterStack, AdapterStacks
from pipelines.inference.contracts.device_errors import ModelError, NothingToAdapt

NO_TOKENS, FIRST_ROW = np.zeros(0, np.int32), np.zeros(1, np.int64)
Give = Callable[[str, NDArray[Any]], None]
"""Makes an array an input of the model until another one is; the array outlives that."""


def check_linears(path: Path, linears: Collection[str], encoder_hidden_size: int = 0) -> None:
    """Raise `NothingToAdapt` for a model without such linear layers, `ModelError` for one that is half
    adapted.
    """
    if encoder_hidden_size:
        raise ModelError(
            f"{path} attends to an encoder, and layers of both have the same names in an adapter; merge the "
            "adapter into the checkpoint, and remove `adapters`."
        )
    if not linears:
        raise NothingToAdapt(
            f"{path}: none of its linear layers is named as the `targets` of its `adapters`, so no adapter "
            "fits; correct these, or export the checkpoint again with braid export."
        )


class AdapterInputs:
    """The inputs for adapters of a model with these linear layers; without any it has none.

    `by_text`: the model reads whole texts side by side.  `dtype`: of A and B.
    """

    def __init__(
        self,
        linears: Mapping[str, LinearShape],
        give: Give,
        by_text: bool = False,
        dtype: np.dtype[Any] = FLOAT32,
    ) -> None:
        self.linears = linears
        self._by_text = by_text
        self._stacks = AdapterStacks(linears, dtype)
        base = self._stacks.base
        slot = self._slot(base, NO_TOKENS, NO_TOKENS, 1, FIRST_ROW)  # of whatever number of rows
        self._of_base = base.arrays | slot
        self._give = give
        self._given: AdapterStack | None = None

    def put(self, number: int, weights: AdapterWeights) -> None:
        self._stacks.put(number, weights)

    def drop(self, number: int) -> None:
        self._stacks.drop(number)
        if self._given is not None and number in self._given.numbers:
            self._switch(self._stacks.base)

    def reset(self) -> None:
        """Nothing is given any more: the inputs are others."""
        self._given = None

    def of(
        self,
        adapters: NDArray[np.int32],
        starts: NDArray[np.int32],
        num_tokens: int,
        logit_rows: NDArray[np.int64],
    ) -> dict[str, NDArray[Any]]:
        """The inputs of a step that change with its tokens, from `starts[i]` to `starts[i + 1]` of the
        adapter `adapters[i]`, then padding up to `num_tokens`.  The step gives the logits of the tokens
        `logit_rows`.
        """
        if not len(adapters):
            return self.none()
        stack = self._stacks.of(adapters)
        if stack is not self._given:
            self._switch(stack)
        return self._slot(stack, adapters, np.diff(starts), num_tokens, logit_rows)

    def of_texts(self, adapters: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
        """Gives the inputs for a batch of texts, text i with `adapters[i]`; [] where all are of the base."""
        return self.of(adapters, np.arange(len(adapters) + 1, dtype=np.int32), len(adapters), FIRST_ROW)

    def none(self) -> dict[str, NDArray[Any]]:
        """Gives the inputs for a step of the base: nothing after the first one."""
        if self.linears and self._given is not self._stacks.base:
            self._switch(self._stacks.base)
        return {}

    def _switch(self, stack: AdapterStack) -> None:
        for name, array in (self._of_base if stack is self._stacks.base else stack.arrays).items():
            self._give(name, array)
        self._given = stack

    def _slot(
        self,
        stack: AdapterStack,
        adapters: NDArray[np.int32],
        num_new: NDArray[np.int32],
        num_tokens: int,
        logit_rows: NDArray[np.int64],
    ) -> dict[str, NDArray[Any]]:
        slot = stack.slot(adapters, num_new, num_tokens, logit_rows)
        return {name: array[:, None] for name, array in slot.items()} if self._by_text else slot
