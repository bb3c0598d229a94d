"""Fills the token masks of logit rows after draft tokens, as if the tokens before each were appended."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pipelines.inference.contracts.guide import Guide


class DraftRun(NamedTuple):
    """The logit rows of one sequence: the first is `row`, then one after each draft token."""

    guide: Guide
    row: int
    draft_tokens: list[int]

    @property
    def rows(self) -> range:
        return range(self.row, self.row + 1 + len(self.draft_tokens))


def fill_run_masks(guide: Guide, bits: Any, draft_tokens: list[int]) -> list[bool]:
    """Write the masks of a run; return for each row whether it has a mask.  The guide does not change: a copy
    of it takes the draft tokens.  bits: int32[rows, ceil(vocab / 32)]; a set bit allows its id.

    Rows have no mask where every token is allowed, and after a draft token that cannot be accepted: such rows
    do not count.  Where tokens are forced, the masks allow only these, as the engine takes no others.
    """
    filled, forced = [False] * len(bits), list[int]()
    for i, row in enumerate(bits):
        filled[i] = _fill(guide, row, forced)
        if i == len(draft_tokens) or (filled[i] and not _allows(row, draft_tokens[i])):
            break
        if forced:
            forced = forced[1:]
        else:
            guide = guide.copy() if i == 0 else guide
            try:
                forced = guide.append(draft_tokens[i])
            except Exception:  # whatever it is: the engine meets it if the draft token is accepted
                break
        if not forced and guide.finished:
            break
    return filled


def _fill(guide: Guide, row: Any, forced: list[int]) -> bool:
    if forced:
        row[:] = 0
        row.view(np.uint32)[forced[0] // 32] = np.uint32(1 << forced[0] % 32)
    elif guide.restricts():
        guide.fill(row)
    else:
        return False
    return True


def _allows(row: Any, token_id: int) -> bool:
    word = token_id // 32
    return word < len(row) and bool(int(row.view(np.uint32)[word]) >> token_id % 32 & 1)
