"""What limits the tokens of a step beside its size: logit rows, stored states, background work, time.

`pending` has the tokens that each running sequence may get, in turn; the functions lower some of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Many

from pipelines.inference.engine.scheduling.prompt_pieces import PromptPieces
from pipelines.inference.engine.scheduling.tenant_shares import is_background
from pipelines.inference.engine.sequences.sequence import Sequence, Slice


def most_tokens(tokens: Iterable[tuple[Sequence, int]], most: int, pieces: PromptPieces) -> int:
    """Most tokens of a step that has at least these of each sequence, `most` by its size.

    Prompts may not make a decoding sequence wait longer than `pieces` says.  Background sequences may wait,
    and so may all others for an image that a step must have as a whole.
    """
    pairs = list(tokens)
    waits = any(count == 1 and not is_background(sequence) for sequence, count in pairs)
    if not waits or any(count > 1 and sequence.request.uncut is not None for sequence, count in pairs):
        return most
    num_decoding = sum(count == 1 for _, count in pairs)
    return num_decoding + pieces.limit(most - num_decoding)


def limit_scoring(running: Many[Sequence], pending: list[int], num_rows: int) -> None:
    """Limit the pending tokens of scored prompts to the step's `num_rows` logit rows for them."""
    for place, sequence in enumerate(running):
        if sequence.scoring:
            pending[place] = sequence.num_scorable(num_rows)
            num_rows -= num_scored([Slice(sequence, sequence.num_cached, pending[place])])


def num_scored(slices: Iterable[Slice]) -> int:
    """Logit rows that the slices take for scores of prompts."""
    return sum(len(slice.scored) for slice in slices)


def end_at_branches(running: Many[Sequence], pending: list[int]) -> None:
    """Let a step end where the recurrent state of a sequence is to be stored."""
    for place, sequence in enumerate(running):
        pending[place] = min(pending[place], sequence.num_to_branch)


def limit_background(running: Many[Sequence], pending: list[int], left: int) -> None:
    """Limit the pending tokens of all background sequences to `left`.

    An image that a step must have as a whole is not cut: once begun, it may take more than is left.
    """
    for place, sequence in enumerate(running):
        if is_background(sequence):
            if left <= 0 or sequence.request.uncut is None:
                pending[place] = min(pending[place], max(0, left))
            left -= pending[place]
