"""The interface of a loaded encoder (`EncoderSession`), which every engine implements.

An encoder computes whole texts in one pass, without a cache: an embedding model, a cross-encoder, a
classifier, or a causal decoder that is used as one of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ops.contract import PoolingOps
from pipelines.adapters.weights import HoldsAdapters
from pipelines.inference.contracts.encoder_batch import TokenBatch

CPU_BATCH_TOKENS = 1024
"""Tokens of the largest efficient call on a CPU: the activations of more do not fit a core's cache."""


Columns = tuple[int, ...]
"""What an encoder of sound reads: (size of a column of features, columns of a window); or one of images:
(3, height, width), or of images that are grids of tokens (numbers of a token,).
"""


@dataclass(frozen=True)
class EncoderSettings:
    """How an encoder is run, from its line in the graph; None leaves the choice to the engine."""

    device: str = "cpu"
    engine: str | None = None  # openvino or onnxruntime
    precision: str | None = None  # f32, bf16, f16
    threads: int | None = None
    targets: frozenset[str] | None = None
    """What adapters may change, as query; none named: all linear layers; None: nothing."""


class EncoderSession(HoldsAdapters, Protocol):
    """A loaded encoder.  One thread calls `run`; the GIL is released during the computation.

    `per_token`: whether the output has a hidden state for each token, or one vector for each text.  `size`:
    the length of either.  `max_tokens`: the longest text in tokens, special tokens included.  Ids are below
    `vocab_size`.  Calls of more than `good_batch_tokens` tokens (padding included) do not increase the
    throughput.

    `columns`: what it reads instead of ids, where it encodes windows of sound, or images; each then has
    `max_tokens` tokens, the vectors of its output.
    """

    @property
    def ops(self) -> PoolingOps: ...
    @property
    def size(self) -> int: ...
    @property
    def per_token(self) -> bool: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def columns(self) -> Columns | None: ...
    @property
    def good_batch_tokens(self) -> int: ...

    def run(self, batch: TokenBatch) -> Any:
        """Return float32[num_texts, width, size], or float32[num_texts, size], on the device of `ops`.

        The next run overwrites it.  Raises RuntimeError when the engine fails, `DeviceLost` when the device
        can compute nothing more.
        """

    def warm(self) -> bool:
        """Prepare something that later runs need, while none runs; return whether more is left to prepare."""

    def describe(self) -> Mapping[str, str]:
        """Properties for logs: engine, device, precision."""

    def close(self) -> None:
        """Free the model.  A second call has no effect."""


@runtime_checkable
class SupportsEmbeds(Protocol):
    """An encoder whose texts may show images: `embeds_size` numbers stand for each of their tokens, which
    have positions on `mrope_axes` axes.
    """

    @property
    def embeds_size(self) -> int: ...
    @property
    def mrope_axes(self) -> int: ...
