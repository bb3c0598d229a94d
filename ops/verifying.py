"""Which of the tokens that were chosen behind guesses count: those whose guesses all came true.

Knows ids in runs of rows; knows nothing of how tokens are chosen or guessed.
"""

from __future__ import annotations

import numpy as np

from ops.contract import Index

NO_GUESS = -1
"""Behind the last row of a run nothing is guessed."""
NO_TOKEN = -1
"""Of a row that does not count."""


def verify(token_ids: Index, guesses: Index) -> Index:
    """The token of each row that counts, NO_TOKEN of the others: int64[k].

    token_ids, guesses: int64[k].  Rows stand in runs, one for each sequence: row j + 1 was computed as if the
    token of row j were guesses[j], and a run ends with NO_GUESS.  So a row counts where in its run every row
    before has chosen what was guessed; the first row of a run always does (Leviathan et al., "Fast inference
    from transformers via speculative decoding", 2023, for a target that has chosen its own token already).
    """
    if not len(token_ids):
        return token_ids
    first = np.empty(len(guesses), np.bool_)
    first[0] = True
    first[1:] = guesses[:-1] == NO_GUESS
    failed = np.zeros(len(guesses), np.int64)
    failed[1:] = token_ids[:-1] != guesses[:-1]
    failed[first] = 0
    failures = np.cumsum(failed)
    before = np.maximum.accumulate(np.where(first, failures, 0))
    return np.where(failures == before, token_ids, NO_TOKEN)
