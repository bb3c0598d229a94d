"""`SamplingOps` on a GPU: one upload per call, and only ids and log-probabilities are downloaded.

References: `ops.sampling`, `ops.logprobs`, `ops.masking`, `ops.penalties`, `ops.draft_verification`; the
kernels are in logit_edits.cu, sampling.cu, draft_verification.cu and logprobs.cu.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ops.contract import Bits, Floats, Index, Logprobs, RowSampling
from ops.cuda.device import Array, Device
from ops.cuda.packed_arrays import layout_of, pack_arrays
from ops.logprobs import gather_logprobs

THREADS = 256
ROW_THREADS = 1024
"""Threads of a kernel in which one block processes a whole row."""
CHUNK = 8192
MAX_VOCAB = 128 * CHUNK
MAX_BINS = 2048
MAX_TOP = 64
"""More alternatives than these are computed on the host, from a copy of the rows."""
GREEDY, NO_BINS = -2, -1
MAX_INT = 2**31 - 1


class CudaSamplingOps:
    """The arithmetic of sampling on one device.

    Its buffers are reused from call to call and grow to the largest size.  All methods but `choose` and
    `gather_logprobs` return before the device has computed anything.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._buffers: dict[str, Array] = {}

    def reserve(self, num_rows: int, vocab: int) -> None:
        """Allocate now what a step of this number of logit rows needs, except for lists of entries."""
        chunks = _num_chunks(vocab)
        for name, count, dtype in (
            ("peak_values", num_rows * chunks, np.float32),
            ("peak_ids", num_rows * chunks, np.int32),
            ("chunk_masses", num_rows * chunks, np.uint64),
            ("bin_counts", num_rows * MAX_BINS, np.uint32),
            ("bin_masses", num_rows * MAX_BINS, np.uint64),
            ("taken", num_rows * vocab, np.float32),
            ("tokens", num_rows, np.int64),
            ("verified", num_rows, np.int64),
            ("sent", num_rows * 64 + 256, np.uint8),
        ):
            self._buffer(name, count, dtype)

    def writable(self, logits: Array) -> Array:
        """The logits themselves.  Raises TypeError unless they are contiguous float32[num_rows, vocab]."""
        if logits.ndim != 2 or logits.dtype != np.float32 or not logits.flags.c_contiguous:
            raise TypeError(
                f"logits are {logits.dtype}{logits.shape}, not contiguous float32[num_rows, vocab]"
            )
        return logits

    def take(self, logits: Array, rows: Index) -> Array:
        """A copy of some rows, valid until the next call; `logits` must not be such a copy."""
        return self._copy_rows("taken", logits, rows)

    def allow_only(self, logits: Array, rows: Index, ids: Index) -> None:
        at, named = _entries(logits, rows, ids), np.unique(rows)
        sent, sent_rows = self._send([at, named])
        saved = self._buffer("saved", len(at), np.float32)
        self._over_entries("save_entries", len(at), logits, sent, saved)
        self._over_rows("ban_rows", logits, len(named), sent_rows)
        self._over_entries("restore_entries", len(at), logits, sent, saved)

    def ban(self, logits: Array, rows: Index, ids: Index) -> None:
        self._edit("ban", logits, rows, ids)

    def add_bias(self, logits: Array, rows: Index, ids: Index, bias: Floats) -> None:
        self._edit("add_bias", logits, rows, ids, bias)

    def apply_bitmask(self, logits: Array, rows: Index, bits: Bits) -> None:
        """Words beyond the vocabulary are not read."""
        words = bits.shape[1]
        if words * 32 < logits.shape[1] or len(bits) != len(rows):
            raise ValueError(f"bits {bits.shape} for {len(rows)} rows of {logits.shape[1]} ids")
        sent = self._send([_rows(logits, rows), np.ascontiguousarray(bits, np.uint32)])
        self._over_rows("apply_bitmask", logits, len(rows), *sent, np.int32(words))

    def penalise_repetition(self, logits: Array, rows: Index, ids: Index, penalty: Floats) -> None:
        self._edit("penalise_repetition", logits, rows, ids, penalty)

    def penalise_presence_and_frequency(
        self, logits: Array, rows: Index, ids: Index, counts: Floats, presence: Floats, frequency: Floats
    ) -> None:
        self._edit("penalise_presence_and_frequency", logits, rows, ids, counts, presence, frequency)

    def choose(self, logits: Array, rows: RowSampling, draft_tokens: Index | None = None) -> Index:
        """See the interface.  When all rows are greedy, only draft tokens are uploaded.

        Equal to `ops.sampling.choose` but for rounding: a GPU's exponential, and sums that are exact to 1e-7.
        A row's id does not depend on its batch.
        """
        num_rows, vocab = logits.shape
        _check_vocab(vocab)
        if not num_rows:
            return np.zeros(0, np.int64)
        if (rows.temperature > 0).any():
            tokens = self._buffer("tokens", num_rows, np.int64)
            peaks = self._find_peaks(logits)
            self._pick(logits, rows, peaks, tokens)
        else:
            tokens = self._take_peaks(logits)
        return self._device.download(tokens if draft_tokens is None else self._verify(tokens, draft_tokens))

    def likeliest(self, logits: Array) -> Index:
        """See the interface."""
        num_rows, vocab = logits.shape
        _check_vocab(vocab)
        return self._device.download(self._take_peaks(logits)) if num_rows else np.zeros(0, np.int64)

    def _take_peaks(self, logits: Array) -> Array:
        """The likeliest id of each row, on the device."""
        num_rows, vocab = logits.shape
        peaks = self._find_peaks(logits)
        tokens = self._buffer("tokens", num_rows, np.int64)
        sizes = np.int32(_num_chunks(vocab)), np.int32(num_rows)
        self._device.launch("take_peaks", _blocks(num_rows), THREADS, *peaks, *sizes, tokens)
        return tokens

    def gather_logprobs(self, logits: Array, rows: Index, tokens: Index, k: int) -> Logprobs:
        """See the interface; for k above MAX_TOP the rows are copied to the host."""
        num, vocab = len(rows), logits.shape[1]
        _check_vocab(vocab)
        if num and k > MAX_TOP:
            return gather_logprobs(self.fetch(logits, rows), np.arange(num), tokens, k)
        kinds = [(num, np.float32), (num, np.int64), (num * k, np.int64), (num * k, np.float32)]
        layout = layout_of(kinds)
        buffer = self._buffer("logprobs", layout.num_bytes, np.uint8)
        if num:
            sent = self._send([_rows(logits, rows), _ids(tokens, vocab)])
            numbers = np.int32(vocab), *sent, np.int32(k)
            self._device.launch("gather_logprobs", num, ROW_THREADS, logits, *numbers, *layout.split(buffer))
        parts = layout.split(self._device.download(buffer))
        chosen, ranks, ids, top = (
            np.zeros(count, dtype) if part is None else part
            for part, (count, dtype) in zip(parts, kinds, strict=True)
        )
        return Logprobs(chosen, ranks, ids.reshape(num, k), top.reshape(num, k))

    def logprobs_of(self, logits: Array, rows: Index, ids: Index) -> Floats:
        """See the interface; each pair is a row of its own, without alternatives."""
        return self.gather_logprobs(logits, rows, ids, 0).chosen

    def fetch(self, logits: Array, rows: Index) -> Floats:
        return self._device.download(self._copy_rows("copied", logits, rows))

    def _copy_rows(self, name: str, logits: Array, rows: Index) -> Array:
        """The rows in the buffer `name`, which does not contain `logits`."""
        vocab = logits.shape[1]
        copied = self._buffer(name, len(rows) * vocab, np.float32).reshape(len(rows), vocab)
        (sent,) = self._send([_rows(logits, rows)])
        self._over_rows("take_rows", logits, len(rows), sent, copied)
        return copied

    def _find_peaks(self, logits: Array) -> tuple[Array, Array]:
        num_rows, vocab = logits.shape
        size = num_rows * _num_chunks(vocab)
        peaks = self._buffer("peak_values", size, np.float32), self._buffer("peak_ids", size, np.int32)
        self._over_rows("find_peaks", logits, num_rows, *peaks)
        return peaks

    def _pick(self, logits: Array, rows: RowSampling, peaks: tuple[Array, Array], tokens: Array) -> None:
        temperature, min_p, top_k, top_p, keys, counters = rows
        num_rows, vocab = logits.shape
        limited = (temperature > 0) & ((top_k < vocab) | (top_p < 1))
        slots = np.where(temperature > 0, NO_BINS, GREEDY).astype(np.int32)
        num_slots = int(np.count_nonzero(limited))
        slots[limited] = np.arange(num_slots)
        few = [np.ascontiguousarray(numbers, np.float32) for numbers in (temperature, min_p, top_p)]
        most = np.clip(top_k, 1, MAX_INT).astype(np.int32)
        words = [np.ascontiguousarray(numbers, np.uint64) for numbers in (keys, counters)]
        at, temperature, least, share, count, *key = self._send([slots, *few, most, *words])
        bins = self._clear_bins(num_slots)
        masses = self._buffer("chunk_masses", num_rows * _num_chunks(vocab), np.uint64)
        self._over_rows("weigh_rows", logits, num_rows, at, temperature, least, peaks[0], masses, *bins)
        sizes = np.int32(vocab), np.int32(_num_chunks(vocab))
        parameters = (at, temperature, least, count, share, *key)
        self._device.launch(
            "pick_tokens", num_rows, ROW_THREADS, logits, *sizes, *parameters, *peaks, masses, *bins, tokens
        )

    def _verify(self, tokens: Array, draft_tokens: Index) -> Array:
        """Verified before the download, so that one copy brings the ids and which of them count."""
        (sent,) = self._send([np.ascontiguousarray(draft_tokens, np.int64)])
        verified = self._buffer("verified", len(tokens), np.int64)
        self._over_entries("verify", len(tokens), tokens, sent, verified)
        return verified

    def _clear_bins(self, num_slots: int) -> tuple[Array, Array]:
        size = num_slots * MAX_BINS
        bins = self._buffer("bin_counts", size, np.uint32), self._buffer("bin_masses", size, np.uint64)
        self._device.launch("clear_bins", _blocks(size), THREADS, *bins, np.int64(size))
        return bins

    def _edit(self, kernel: str, logits: Array, rows: Index, ids: Index, *numbers: Floats) -> None:
        if not len(rows):
            return
        at = _entries(logits, rows, ids)
        sent = self._send([at, *(np.ascontiguousarray(one, np.float32) for one in numbers)])
        self._over_entries(kernel, len(at), logits, *sent)

    def _over_entries(self, kernel: str, count: int, *args: Any) -> None:
        self._device.launch(kernel, _blocks(count), THREADS, *args, np.int64(count))

    def _over_rows(self, kernel: str, logits: Array, num_rows: int, *args: Any) -> None:
        """One block for each chunk of each row; empty buffers are passed as null pointers."""
        vocab = logits.shape[1]
        chunks = _num_chunks(vocab)
        self._device.launch(
            kernel, num_rows * chunks, THREADS, logits, np.int32(vocab), np.int32(chunks), *args
        )

    def _send(self, arrays: Sequence[NDArray[Any]]) -> list[Array]:
        packed = pack_arrays(arrays)
        sent = self._buffer("sent", len(packed.bytes), np.uint8)
        return packed.layout.split(self._device.upload(packed.bytes, sent))

    def _buffer(self, name: str, count: int, dtype: DTypeLike) -> Array:
        """The first entries of the buffer of this name, which grows when it is too small."""
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < count:
            self._buffers.pop(name, None)  # before the larger one is made: both may not fit
            buffer = self._buffers[name] = self._device.empty(_with_headroom(count), dtype)
        return buffer[:count]


def _with_headroom(count: int) -> int:
    """A quarter more, so that growing batches do not cause an allocation each time."""
    return max(64, count + count // 4)


def _blocks(count: int) -> int:
    return -(-count // THREADS)


def _num_chunks(vocab: int) -> int:
    return -(-vocab // CHUNK)


def _entries(logits: Array, rows: Index, ids: Index) -> Index:
    """row * vocab + id.  Raises IndexError when one is outside the logits, as numpy does."""
    at = rows * logits.shape[1] + ids
    if len(at) and (int(at.min()) < 0 or int(at.max()) >= logits.size):
        raise IndexError(f"a row or an id is outside logits of {logits.shape}")
    return np.ascontiguousarray(at, np.int64)


def _rows(logits: Array, rows: Index) -> Index:
    if len(rows) and (int(rows.min()) < 0 or int(rows.max()) >= len(logits)):
        raise IndexError(f"a row is outside logits of {logits.shape}")
    return np.ascontiguousarray(rows, np.int64)


def _ids(tokens: Index, vocab: int) -> Index:
    if len(tokens) and (int(tokens.min()) < 0 or int(tokens.max()) >= vocab):
        raise IndexError(f"a token is outside a vocabulary of {vocab}")
    return np.ascontiguousarray(tokens, np.int64)


def _check_vocab(vocab: int) -> None:
    if not 0 < vocab <= MAX_VOCAB:
        raise ValueError(f"a vocabulary of {vocab} ids: the kernels take 1 to {MAX_VOCAB}")
