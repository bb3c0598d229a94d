"""Appends a chosen token to a sequence, and decides whether and why the sequence ends."""

from __future__ import annotations

from typing import NamedTuple

from pipelines.inference.contracts.guide import GuideError
from pipelines.inference.engine.sequences.repetition import RepetitionWatch
from pipelines.inference.engine.sequences.sequence import Sequence
from pipelines.inference.sampling.sampling_slots import SamplingSlots

TOO_SLOW = "the grammar takes too long to follow: simplify it, above all what can be read in several ways"
Ending = tuple[str | None, int | None]
"""How a sequence ends, None while it goes on, and by which of the stop tokens that its request named."""
CONTINUES: Ending = None, None


class Appended(NamedTuple):
    """The tokens that a sequence was given, the end token included, and how it ended."""

    token_ids: list[int]
    finish: str | None
    stop_token_id: int | None


def append_token(sequence: Sequence, sampling: SamplingSlots, token_id: int) -> Appended:
    """Append the chosen token, and the tokens that its guide forces after it, up to the end of the sequence.

    An exception of the guide leaves the sequence unchanged.
    """
    guide = sequence.guide
    if guide is None:
        return Appended([token_id], *_add(sequence, sampling, token_id))
    if guide.is_over:
        raise GuideError(TOO_SLOW)
    token_ids = [token_id, *guide.append(token_id)]
    ended = guide.finished  # by the last of them, whether or not the request ignores end tokens
    for count, next_id in enumerate(token_ids[:-1] if ended else token_ids, start=1):
        ending = _add(sequence, sampling, next_id)
        if ending is not CONTINUES:
            return Appended(token_ids[:count], *ending)
    return Appended(token_ids, *(_stopped_by(sequence, token_ids[-1]) if ended else CONTINUES))


def _add(sequence: Sequence, sampling: SamplingSlots, token_id: int) -> Ending:
    """One token more, unless that is an end token, which nothing is computed from."""
    request = sequence.request
    if token_id in request.eos_token_ids or token_id in request.stop_token_ids:
        return _stopped_by(sequence, token_id)
    sequence.token_ids.append(token_id)
    sampling.append(sequence.slot, token_id)
    if len(sequence.token_ids) >= request.max_length:
        return "length", None
    watch = sequence.repetition
    return ("repetition", None) if watch is not None and _repeats(sequence, watch) else CONTINUES


def _stopped_by(sequence: Sequence, token_id: int) -> Ending:
    request = sequence.request
    named = token_id in request.stop_token_ids and token_id not in request.eos_token_ids
    return "stop", token_id if named else None


def _repeats(sequence: Sequence, watch: RepetitionWatch) -> bool:
    """Before `min_tokens` it may repeat itself, and is watched."""
    repeats = watch.append(sequence.token_ids, sequence.num_prompt)
    return repeats and sequence.num_output >= sequence.request.params.min_tokens
