"""Log-probabilities of chosen tokens and of the likeliest alternatives."""

from __future__ import annotations

import numpy as np

from ops.candidates import column_maxima, entries_at_least, num_columns
from ops.contract import Floats, Index, Logprobs
from ops.full_row_sampling import nucleus_of_row
from ops.min_p_top_k import LOWEST
from ops.nucleus import SMALLEST
from ops.token_weights import sum_blocks


def gather_logprobs(logits: Floats, rows: Index, tokens: Index, k: int) -> Logprobs:
    """Log-probabilities of one token per row and of the k likeliest, 0 <= k <= vocab.

    logits: float32[n, vocab], read only; rows: int64[m], indices of rows; tokens: int64[m].  An impossible id
    has -inf; in a row whose largest logit is not finite every id has -inf.  The rank counts ids that are
    likelier, or as likely and lower: the token's place in a full sorted list, from 1.
    """
    if not len(rows):
        return _empty(k)
    top_ids = np.zeros((len(rows), k), np.int64)
    top = np.zeros((len(rows), k), np.float32)
    ranks = np.empty(len(rows), np.int64)
    scales = _scales(logits, rows)
    for i, at in enumerate(rows):
        top_ids[i], top[i] = _best(logits[at], k)
        ranks[i] = _rank(logits[at], int(tokens[i]), top_ids[i])
    chosen = _logprobs(logits[rows, tokens], scales)
    return Logprobs(chosen, ranks, top_ids, _logprobs(top, scales[:, None]))


def logprobs_of(logits: Floats, rows: Index, ids: Index) -> Floats:
    """Log-probabilities of single ids: float32[k].

    logits: float32[n, vocab], read only; rows, ids: int64[k], pairs.  An impossible id has -inf, as in
    `gather_logprobs`.
    """
    named, at = np.unique(rows, return_inverse=True)
    scales = _scales(logits, named)
    return _logprobs(logits[rows, ids], scales[at])


def as_drawn(values: Floats, temperature: Floats, top_p: Floats) -> None:
    """Change rows in place so that their log-probabilities are those of the sampling distribution.

    Rows are divided by their temperature; ids that top_p removes get the lowest number.  values: float32[n,
    vocab]; temperature: float32[n], > 0; top_p: float32[n] in [0, 1], 1 is off.  `gather_logprobs` of the
    result gives the renormalized log-probabilities.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        values /= temperature[:, None]
    for row in np.flatnonzero(top_p < 1):
        ids = _nucleus_ids(values[row], top_p[row])
        remaining = values[row, ids]
        values[row] = LOWEST
        values[row, ids] = remaining


def _scales(logits: Floats, rows: Index) -> Floats:
    """log(sum(exp(row))) of some rows: float32[m]; not finite when the largest value is not."""
    peaks, sums = sum_blocks(logits, rows, np.ones(len(rows), np.float32))
    with np.errstate(invalid="ignore"):
        return np.asarray(peaks + np.log(sums.sum(axis=1, dtype=np.float64)), np.float32)


def _logprobs(values: Floats, scales: Floats) -> Floats:
    """Impossible ids, and all ids of rows without a finite largest value, have -inf."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nan_to_num(values - scales, nan=-np.inf, neginf=-np.inf), np.float32)


def _empty(k: int) -> Logprobs:
    floats, ids = np.empty(0, np.float32), np.empty(0, np.int64)
    return Logprobs(floats, ids, ids.reshape(0, k), floats.reshape(0, k))


def _nucleus_ids(row: Floats, top_p: np.float32) -> Index:
    """The first ids of float32[vocab] whose total weight reaches the share top_p, in ascending order."""
    share = max(float(top_p), SMALLEST)  # so that no id is never enough
    peaks, blocks = sum_blocks(row[None], np.zeros(1, np.int64), np.ones(1, np.float32))
    some = nucleus_of_row(row, peaks[0], blocks[0], np.float32(1), share)
    return some[0] if isinstance(some, tuple) else np.flatnonzero(some)


def _best(row: Floats, k: int) -> tuple[Index, Floats]:
    """The k largest values of one row in order, and their ids, both [k]."""
    if k == 0:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    columns = column_maxima(row, num_columns(len(row), k))
    ids, found = entries_at_least(row, columns, np.sort(columns)[-k])
    # A stable sort of the negatives: ids are ascending, so ties stay lowest first.
    order = np.argsort(-found, kind="stable")[:k]
    return ids[order], found[order]


def _rank(row: Floats, token: int, top_ids: Index) -> int:
    """The token's place in the full sorted list, which starts with `top_ids`; NaN has the first."""
    value = row[token]
    places = np.flatnonzero(top_ids == token)
    if len(places) and not np.isnan(value):
        return int(places[0]) + 1
    return 1 + int(np.count_nonzero(row > value)) + int(np.count_nonzero(row[:token] == value))
