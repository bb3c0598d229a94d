"""The interface of a loaded decoder (`DecoderSession`), which every engine implements.

The scheduler, the prefix cache and the sampler depend on this interface alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ops.contract import SamplingOps
from pipelines.adapters.weights import HoldsAdapters
from pipelines.inference.contracts.model_shape import ModelShape
from pipelines.inference.contracts.routed_experts import ExpertRecord
from pipelines.inference.contracts.step import Step

NO_STEP_TIMES: Mapping[int, float] = MappingProxyType({})
"""`step_times_s` of a session that measures nothing."""


@runtime_checkable
class RoutesExperts(Protocol):
    """A session whose decoder may have routed experts."""

    @property
    def routed_experts(self) -> ExpertRecord | None:
        """The choices of the tokens in the cache; None where they are not recorded."""

    @property
    def experts_s(self) -> float:
        """Seconds that the routed experts of all steps took; 0 where that is not known."""


class DecoderSession(HoldsAdapters, Protocol):
    """A loaded decoder with a paged key-value cache.

    `shape`: the numbers of the model and of its cache.  `can_swap`: whether `allocate` accepts host blocks.
    `ops`: the arithmetic on the logits that `run` returns.  `step_times_s`: number of sequences → seconds of
    a step with one token each, as measured by `warm` so far; `shape_change_s`: by how many seconds a step
    takes longer whose number of tokens is not that of the step before.  No cache exists before `allocate`.
    """

    @property
    def shape(self) -> ModelShape: ...
    @property
    def can_swap(self) -> bool: ...
    @property
    def ops(self) -> SamplingOps: ...
    @property
    def step_times_s(self) -> Mapping[int, float]: ...
    @property
    def shape_change_s(self) -> float: ...

    def reserve(self, max_tokens: int, max_sequences: int, max_scored: int = 0) -> int:
        """Allocate what the largest step needs beside the cache; return the default size of the cache in
        bytes.

        A step gives at most `max_sequences + max_scored` logit rows.
        Call it once, before `allocate`.  The bytes are of the memory in which the cache is placed: the
        host's, or the device's.
        """

    def allocate(self, num_blocks: int, num_host_blocks: int = 0, num_states: int = 0) -> None:
        """Allocate the cache: `num_blocks * shape.block_bytes` bytes, `num_host_blocks` host blocks for
        swapping, and `num_states * shape.state_bytes` bytes for recurrent states.

        The size is fixed afterwards.  A session may allocate one more block, which is used by no sequence.
        Call it once, before `run`.  Raises ValueError for host blocks when `can_swap` is false.
        """

    def run(self, step: Step) -> Any:
        """Compute a step: write keys and values of its tokens to the cache, return float32[num_logits,
        vocab].

        Before the model runs, blocks are moved: `step.swaps_out`, then `step.swaps_in`, then `step.copies`.
        The array is in the memory on which `ops` works: the host's, or a device's.  The caller may change it
        until the next `run`.  The GIL is released during the computation.
        """

    def read_block(self, block: int) -> NDArray[np.uint8]:
        """uint8[shape.block_bytes]: a copy of what a block holds, over all layers; between steps."""

    def write_block(self, block: int, content: NDArray[np.uint8]) -> None:
        """Replace what a block holds by what `read_block` of an equal session has given; between steps.

        `content` may be changed once it returns.
        """

    def warm(self) -> bool:
        """Prepare something that later steps need, while no step runs; return whether more is left to
        prepare.

        Called between steps, by the thread that runs them; a call is short, so that new requests wait little.
        The content of the cache does not change.
        """

    def describe(self) -> Mapping[str, str]:
        """Properties for logs and `/metrics`: device, precision, element type of the cache."""

    def close(self) -> None:
        """Free the model and the cache."""
