"""What sampling and pooling ask of arithmetic, wherever values lie: on the host for numpy, or on a GPU.

Logits, and the values of encoders, stay where the model left them; ids, parameters and results are numpy
arrays on the host.  So what crosses to a device in a step is a few numbers per row, and what comes back is
one id per row and the log-probabilities that were asked for, or a row for each text.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Index = NDArray[np.int64]
Words = NDArray[np.uint64]
Bits = NDArray[np.uint32]
Bools = NDArray[np.bool_]


class Logprobs(NamedTuple):
    """Natural logarithms; a row's alternatives stand best first, ties lowest id first."""

    chosen: Floats  # float32[m]
    ranks: Index  # int64[m], 1 for the likeliest id
    top_ids: Index  # int64[m, k]
    top: Floats  # float32[m, k]


class SamplingOps(Protocol):
    """The arithmetic of the sampling stages: `ops.numpy_ops` for numpy, `ops.cuda` for a GPU.

    `logits` are float32[num_rows, vocab] and changed in place.

    `rows` and `ids` are flat pairs of equal length, int64[k]; what each function does to them stands in
    `ops.masking` and `ops.penalties`.
    """

    def writable(self, logits: Any) -> Any:
        """The same logits, C-contiguous and writable; a copy only where they were not."""

    def take(self, logits: Any, rows: Index) -> Any:
        """A copy of some rows: float32[len(rows), vocab]."""

    def allow_only(self, logits: Any, rows: Index, ids: Index) -> None: ...

    def ban(self, logits: Any, rows: Index, ids: Index) -> None: ...

    def add_bias(self, logits: Any, rows: Index, ids: Index, bias: Floats) -> None: ...

    def apply_bitmask(self, logits: Any, rows: Index, bits: Bits) -> None:
        """Make impossible what has no bit: bits uint32[len(rows), ceil(vocab / 32)], lowest id first."""

    def penalise_repetition(self, logits: Any, rows: Index, ids: Index, penalty: Floats) -> None: ...

    def penalise_presence_and_frequency(
        self, logits: Any, rows: Index, ids: Index, counts: Floats, presence: Floats, frequency: Floats
    ) -> None: ...

    def choose(
        self,
        logits: Any,
        temperature: Floats,
        min_p: Floats,
        top_k: Index,
        top_p: Floats,
        keys: Words,
        counters: Words,
        draft_tokens: Index | None = None,
    ) -> Index:
        """One id per row of `logits`: the likeliest where the temperature is 0, else a drawn one.

        The parameters have one entry per row; `ops.sampling` says what they mean.  The uniform number of a
        row is that of its key and counter (`ops.random.uniforms`).  With `draft_tokens` rows stand in runs, and
        those that do not count give -1 (`ops.draft_verification.verify`).
        """

    def gather_logprobs(self, logits: Any, rows: Index, tokens: Index, k: int) -> Logprobs:
        """See `ops.logprobs.gather_logprobs`."""

    def logprobs_of(self, logits: Any, rows: Index, ids: Index) -> Floats:
        """Log-probabilities of single ids: float32[k], for flat pairs of rows and ids."""

    def fetch(self, logits: Any, rows: Index) -> Floats:
        """A copy of some rows in host memory: float32[len(rows), vocab]."""


class PoolingOps(Protocol):
    """The arithmetic on what encoders give: `ops.pooling` for numpy, `ops.cuda.pooling` for a GPU.

    Values are float32, of tokens [num_texts, width, size], of texts [num_texts, size]; they stay where the
    model left them.  What each function computes stands in `ops.pooling`.
    """

    def pool(self, values: Any, lengths: Index, how: str) -> Any:
        """[num_texts, width, size] → [num_texts, size]; `how` is one of `ops.pooling.POOLINGS`."""

    def normalize(self, values: Any, where: Bools) -> Any:
        """Last axes of length 1, for the texts `where` says so, bool[num_texts]; the others as they are."""

    def sigmoid(self, values: Any, where: Bools) -> Any: ...

    def softmax(self, values: Any, where: Bools) -> Any:
        """Over the last axis."""

    def dense(self, values: Any, weight: Any, bias: Any, activation: str) -> Any:
        """activation(values @ weight.T + bias); weight [out, in] and bias [out] or None are from `load`."""

    def load(self, weight: Floats) -> Any:
        """Weights where the values will be."""

    def fetch(self, values: Any) -> Floats:
        """A copy in host memory that is the caller's own."""
