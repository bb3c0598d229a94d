"""Log-probabilities of chosen tokens and of the likeliest ones.  Knows nothing of requests."""

from __future__ import annotations

import numpy as np

from ops.candidates import Values, at_least, floors, parts
from ops.contract import Index, Logprobs
from ops.sampling import LOWEST, nucleus


def gather_logprobs(logits: Values, rows: Index, tokens: Index, k: int) -> Logprobs:
    """Log-probabilities of one token per row and of the k likeliest, 0 <= k <= vocab.

    logits: float32[n, vocab], read only; rows: int64[m], the rows that are meant; tokens: int64[m].
    An impossible id has -inf; in a row whose largest logit is not finite every id has -inf.
    The rank counts ids that are likelier, or as likely and lower: the token's place in a full sorted list.
    """
    found = Logprobs(
        np.empty(len(rows), np.float32),
        np.empty(len(rows), np.int64),
        np.empty((len(rows), k), np.int64),
        np.empty((len(rows), k), np.float32),
    )
    for part in parts(len(rows), logits.shape[1]):
        values, picked = logits[rows[part]], tokens[part]
        chosen = np.take_along_axis(values, picked[:, None], axis=1)
        found.ranks[part] = [_rank(row, token) for row, token in zip(values, picked, strict=True)]
        found.top_ids[part], best = _best(values, k)
        scale = log_sum_exp(values)[:, None]
        with np.errstate(invalid="ignore"):
            found.chosen[part] = np.nan_to_num(chosen - scale, nan=-np.inf, neginf=-np.inf)[:, 0]
            found.top[part] = np.nan_to_num(best - scale, nan=-np.inf, neginf=-np.inf)
    return found


def logprobs_of(logits: Values, rows: Index, ids: Index) -> Values:
    """Log-probabilities of single ids: float32[k].

    logits: float32[n, vocab], read only; rows, ids: int64[k], flat pairs.  As in `gather_logprobs`, what is
    impossible has -inf.
    """
    named, at = np.unique(rows, return_inverse=True)
    scales = np.empty(len(named), np.float32)
    for part in parts(len(named), logits.shape[1]):
        scales[part] = log_sum_exp(logits[named[part]])
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nan_to_num(logits[rows, ids] - scales[at], nan=-np.inf, neginf=-np.inf))


def as_drawn(values: Values, temperature: Values, top_p: Values) -> None:
    """Make rows, in place, what tokens are drawn from.

    They are divided by their temperature; what top_p leaves out gets the lowest number.
    values: float32[n, vocab]; temperature: float32[n], > 0; top_p: float32[n] in [0, 1], 1 is off.  What is
    left of a row has, renormalised, the log-probability that `gather_logprobs` finds.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        values /= temperature[:, None]
    for row in np.flatnonzero(top_p < 1):
        kept = nucleus(values[row], top_p[row])
        left = values[row, kept]
        values[row] = LOWEST
        values[row, kept] = left


def log_sum_exp(values: Values) -> Values:
    """log(sum(exp(row))): float32[n, vocab] → float32[n]; not finite where the largest value is not.

    `values` is used up: it is overwritten.
    """
    peaks = values.max(axis=1)
    with np.errstate(invalid="ignore", under="ignore"):
        values -= peaks[:, None]
        np.exp(values, out=values)
        return np.asarray(peaks + np.log(values.sum(axis=1)), np.float32)


def _rank(row: Values, token: int) -> int:
    value = row[token]
    return 1 + int(np.count_nonzero(row > value)) + int(np.count_nonzero(row[:token] == value))


def _best(values: Values, k: int) -> tuple[Index, Values]:
    """The k largest values of each row in order, and their ids."""
    if k == 0:
        return np.empty((len(values), 0), np.int64), np.empty((len(values), 0), np.float32)
    ids, found = at_least(values, floors(values, np.full(len(values), k)), -np.inf)
    # A stable sort of the negatives: ids are ascending, so ties stay lowest first, and padding stays last.
    order = np.argsort(-found, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(found, order, axis=1)
