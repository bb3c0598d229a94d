"""Which of the tokens that were chosen behind draft tokens count: those whose draft tokens all were accepted.

Knows ids in runs of rows; knows nothing of how tokens are chosen or drafted.
"""

from __future__ import annotations

import numpy as np

from ops.contract import Index

NO_DRAFT_TOKEN = -1
"""Behind the last row of a run nothing is drafted."""
NO_TOKEN = -1
"""Of a row that does not count."""


def verify(token_ids: Index, draft_tokens: Index) -> Index:
    """The token of each row that counts, NO_TOKEN of the others: int64[k].

    token_ids, draft tokens: int64[k].  Rows stand in runs, one for each sequence: row j + 1 was computed as if the
    token of row j were draft tokens[j], and a run ends with NO_GUESS.  So a row counts where in its run every row
    before has chosen what was drafted; the first row of a run always does (Leviathan et al., "Fast inference
    from transformers via speculative decoding", 2023, for a target that has chosen its own token already).
    """
    if not len(token_ids):
        return token_ids
    first = np.empty(len(draft_tokens), np.bool_)
    first[0] = True
    first[1:] = draft_tokens[:-1] == NO_DRAFT_TOKEN
    failed = np.zeros(len(draft_tokens), np.int64)
    failed[1:] = token_ids[:-1] != draft_tokens[:-1]
    failed[first] = 0
    failures = np.cumsum(failed)
    before = np.maximum.accumulate(np.where(first, failures, 0))
    return np.where(failures == before, token_ids, NO_TOKEN)
