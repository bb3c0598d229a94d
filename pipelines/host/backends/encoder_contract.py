"""What an engine for exported encoders must do.  Knows batches of token ids; knows no engine and no file.

An encoder reads whole texts: an embedding model, a cross-encoder, a classifier, or a causal decoder that is
used as one of these.  It has no cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ops.contract import PoolingOps
from pipelines.host.engine.encoder_batch import TokenBatch

CPU_BATCH_TOKENS = 1024
"""Beyond it a call's values no longer lie in a core's own cache."""


@dataclass(frozen=True)
class EncoderSettings:
    """What a graph says of an encoder's line; None is the engine's own choice."""

    device: str = "cpu"
    engine: str | None = None  # openvino or onnxruntime
    precision: str | None = None  # f32, bf16, f16
    threads: int | None = None


class EncoderSession(Protocol):
    """A loaded encoder.  One thread calls `run`; the GIL is released while it computes.

    `per_token` tells whether it gives hidden states of tokens, or a row for each text; `size` is the length
    of either.  `max_tokens` is the longest text that it reads, special tokens counted; `vocab_size` bounds
    ids.  Calls of more than `good_batch_tokens` tokens, padding counted, compute no more texts a second.
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
    def good_batch_tokens(self) -> int: ...

    def run(self, batch: TokenBatch) -> Any:
        """float32[num_texts, width, size] or float32[num_texts, size], on the device of `ops`.

        It is overwritten by the next run.  Raises RuntimeError when the engine fails, `DeviceLost` when
        nothing can run on its device any more.
        """

    def warm(self) -> bool:
        """Prepare something that later runs will want, while none runs; whether there is more of it."""

    def describe(self) -> Mapping[str, str]:
        """Facts for logs: engine, device, precision."""

    def close(self) -> None:
        """Free the model.  A second call does nothing."""
