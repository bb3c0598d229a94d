"""The interfaces of the arithmetic for sampling and pooling, implemented with numpy on the host and with
CUDA.

Logits, and the outputs of encoders, stay on the device where the model computed them; ids, parameters and
results are numpy arrays on the host.  So a step uploads a few numbers per row and downloads one id per row
and the requested log-probabilities, or one vector per text.
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
    """Natural logarithms of probabilities; alternatives are ordered best first, ties lowest id first."""

    chosen: Floats  # float32[m]
    ranks: Index  # int64[m], 1 for the likeliest id
    top_ids: Index  # int64[m, k]
    top: Floats  # float32[m, k]


class RowSampling(NamedTuple):
    """How a token is chosen from each row of logits: one entry per row; see `ops.sampling`."""

    temperature: Floats
    """float32[n]: 0 for the likeliest id."""
    min_p: Floats
    """float32[n]: least weight of an id, relative to the likeliest; 0: any."""
    top_k: Index
    """int64[n]: number of likeliest ids; the size of the vocabulary or more: all."""
    top_p: Floats
    """float32[n]: share of the weight that the likeliest ids have together; 1: all."""
    keys: Words
    """uint64[n]: with `counters` they give a row's uniform number (`ops.random.uniforms`)."""
    counters: Words
    """uint64[n]."""

    def rows(self, places: NDArray[np.int32], counters: Words) -> RowSampling:
        """The entries at these places, each with a counter of its own."""
        return RowSampling(
            self.temperature[places],
            self.min_p[places],
            self.top_k[places],
            self.top_p[places],
            self.keys[places],
            counters,
        )


class SamplingOps(Protocol):
    """The arithmetic of the sampling stages: `ops.numpy_ops` with numpy, `ops.cuda` on a GPU.

    `logits` are float32[num_rows, vocab] and changed in place.  `rows` and `ids` are pairs of equal length,
    int64[k]; see `ops.masking` and `ops.penalties` for the functions on them.
    """

    def writable(self, logits: Any) -> Any:
        """Gives the logits C-contiguous and writable; copies them only when they were not."""

    def take(self, logits: Any, rows: Index) -> Any:
        """A copy of some rows: float32[len(rows), vocab]."""

    def allow_only(self, logits: Any, rows: Index, ids: Index) -> None: ...

    def ban(self, logits: Any, rows: Index, ids: Index) -> None: ...

    def add_bias(self, logits: Any, rows: Index, ids: Index, bias: Floats) -> None: ...

    def apply_bitmask(self, logits: Any, rows: Index, bits: Bits) -> None:
        """Set ids without a set bit to -inf.  bits: uint32[len(rows), ceil(vocab / 32)], lowest id first."""

    def penalise_repetition(self, logits: Any, rows: Index, ids: Index, penalty: Floats) -> None: ...

    def penalise_presence_and_frequency(
        self, logits: Any, rows: Index, ids: Index, counts: Floats, presence: Floats, frequency: Floats
    ) -> None: ...

    def likeliest(self, logits: Any) -> Index:
        """The likeliest id of each row, int64[num_rows]; ties go to the lowest id."""

    def choose(self, logits: Any, rows: RowSampling, draft_tokens: Index | None = None) -> Index:
        """One id per row of `logits`, int64[num_rows]: the likeliest where the temperature is 0, else a
        sampled one.

        `rows` has one entry per row.  With `draft_tokens` rows are in runs, and those that do not count give
        -1 (`ops.draft_verification.verify`).
        """

    def gather_logprobs(self, logits: Any, rows: Index, tokens: Index, k: int) -> Logprobs:
        """See `ops.logprobs.gather_logprobs`."""

    def logprobs_of(self, logits: Any, rows: Index, ids: Index) -> Floats:
        """Log-probabilities of single ids: float32[k], for pairs of rows and ids."""

    def fetch(self, logits: Any, rows: Index) -> Floats:
        """A copy of some rows in host memory: float32[len(rows), vocab]."""


class PoolingOps(Protocol):
    """The arithmetic on the outputs of encoders: `ops.pooling` with numpy, `ops.cuda.pooling` on a GPU.

    Values are float32, of tokens [num_texts, width, size], of texts [num_texts, size]; they stay on the
    model's device.  See `ops.pooling` for the functions.
    """

    def pool(self, values: Any, lengths: Index, how: str) -> Any:
        """[num_texts, width, size] → [num_texts, size]; `how` is one of `ops.pooling.POOLINGS`."""

    def normalize(self, values: Any, where: Bools) -> Any:
        """Scale last axes to length 1, for texts with a true entry in `where`, bool[num_texts]."""

    def sigmoid(self, values: Any, where: Bools) -> Any: ...

    def softmax(self, values: Any, where: Bools) -> Any:
        """Over the last axis, for texts with a true entry in `where`."""

    def dense(self, values: Any, weight: Any, bias: Any, activation: str) -> Any:
        """activation(values @ weight.T + bias); weight [out, in] and bias [out] or None come from `load`."""

    def load(self, weight: Floats) -> Any:
        """Copy weights to the device of the values."""

    def fetch(self, values: Any) -> Floats:
        """A new copy in host memory."""
