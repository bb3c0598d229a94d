"""What an engine for exported models must do.  Scheduler, prefix cache and sampler know only this."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from ops.contract import SamplingOps
from pipelines.host.engine.step import Step

NO_STEP_TIMES: Mapping[int, float] = MappingProxyType({})
"""`step_times_s` of a session that tries nothing."""


class DecoderSession(Protocol):
    """A loaded decoder with a paged key-value cache.

    `block_tokens` tokens fit in a block; `block_bytes` is what one block costs over all layers, keys and
    values together, scales included, as read from the compiled model.  No cache exists before `allocate`.
    `ops` is the arithmetic for what `run` gives.
    """

    @property
    def can_swap(self) -> bool: ...
    @property
    def ops(self) -> SamplingOps: ...
    @property
    def block_tokens(self) -> int: ...
    @property
    def block_bytes(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def max_context(self) -> int: ...
    @property
    def step_times_s(self) -> Mapping[int, float]: ...

    def reserve(self, max_tokens: int, max_sequences: int, max_scored: int = 0) -> int:
        """Take what the largest step needs beside the cache; the bytes a cache may have by default.

        A step gives at most `max_sequences + max_scored` rows of logits.  Called once, before `allocate`.
        A cache lies where the device's memory is, so its bytes are counted there.
        """

    def allocate(self, num_blocks: int, num_host_blocks: int = 0) -> None:
        """Make the cache: `num_blocks * block_bytes` bytes, and as many host blocks for swapping.

        A hard bound: it never grows.  There may be one block more, which belongs to no sequence.
        Called once, before `run`.  ValueError for host blocks where not `can_swap`.
        """

    def run(self, step: Step) -> Any:
        """Write keys and values of the step's tokens to the cache; give float32[num_logits, vocab].

        Before the model runs: `step.swaps_out`, then `step.swaps_in`, then `step.copies`.
        The array lies where `ops` works on it: host memory, or a device's.  It is the caller's to change
        until the next `run`.  The GIL is released while it computes.
        """

    def warm(self) -> bool:
        """Prepare something that later steps will want, while none runs; whether there is more of it.

        Called between steps, by the thread that runs them, which should soon look for requests again.  What
        the cache holds does not change.
        """

    def describe(self) -> Mapping[str, str]:
        """Facts for logs and `/metrics`: device, precision, cache element type."""

    def close(self) -> None:
        """Free the model and the cache."""
