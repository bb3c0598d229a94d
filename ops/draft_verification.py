"""Decides which tokens after draft tokens count: those whose preceding draft tokens were all accepted."""

from __future__ import annotations

import numpy as np

from ops.contract import Index

NO_DRAFT_TOKEN = -1
"""The draft token of the last row of a run."""
NO_TOKEN = -1
"""The token of a row that does not count."""


def verify(token_ids: Index, draft_tokens: Index) -> Index:
    """The token of each row that counts, NO_TOKEN for the others: int64[k].

    token_ids, draft_tokens: int64[k].  Rows are in runs, one for each sequence: row j + 1 was computed as if
    the token of row j were draft_tokens[j], and a run ends with NO_DRAFT_TOKEN.  A row counts when every row
    before it in its run has chosen its draft token; the first row of a run always counts (Leviathan et al.,
    "Fast inference from transformers via speculative decoding", 2023, for a target that has already chosen
    its own token).
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
