"""Appends a chosen token to a sequence, and decides whether and why the sequence ends."""

from __future__ import annotations

from typing import NamedTuple

from pipelines.host.engine.repetition import RepetitionWatch
from pipelines.host.engine.sequence import Sequence
from pipelines.host.sampling.sampling_slots import SamplingSlots

Ending = tuple[str | None, int | None]
"""How a sequence ends, None while it goes on, and by which of the stop tokens that its request named."""
CONTINUES: Ending = None, None


class Appended(NamedTuple):
    """What a sequence grew by, [] when the token ended it, and how it ended."""

    token_ids: list[int]
    finish: str | None
    stop_token_id: int | None


def append_token(sequence: Sequence, sampling: SamplingSlots, token_id: int) -> Appended:
    """Append the chosen token, and the tokens that its guide forces after it, up to the end of the sequence.

    An exception of the guide leaves the sequence unchanged.
    """
    guide = sequence.guide
    if guide is None:
        finish, stop_token_id = _add(sequence, sampling, token_id)
        return Appended([] if finish == "stop" else [token_id], finish, stop_token_id)
    token_ids = [token_id, *guide.append(token_id)]
    before, ending = len(sequence.token_ids), CONTINUES
    for next_id in token_ids:
        ending = _add(sequence, sampling, next_id)
        if ending is not CONTINUES:
            break
    if ending is CONTINUES and guide.finished:
        ending = "stop", None
    return Appended(token_ids[: len(sequence.token_ids) - before], *ending)


def _add(sequence: Sequence, sampling: SamplingSlots, token_id: int) -> Ending:
    """One token more, unless that is an end token, which is no part of the sequence."""
    if token_id in sequence.eos_token_ids:
        return "stop", None
    if token_id in sequence.stop_token_ids:
        return "stop", token_id
    sequence.token_ids.append(token_id)
    sampling.append(sequence.slot, token_id)
    if len(sequence.token_ids) >= sequence.max_length:
        return "length", None
    watch = sequence.repetition
    return ("repetition", None) if watch is not None and _repeats(sequence, watch) else CONTINUES


def _repeats(sequence: Sequence, watch: RepetitionWatch) -> bool:
    """Before `min_tokens` it may repeat itself, and is watched."""
    repeats = watch.append(sequence.token_ids, sequence.num_prompt)
    return repeats and sequence.num_output >= sequence.params.min_tokens
