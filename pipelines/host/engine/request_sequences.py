"""The sequences of an accepted request, grouped by prompt: those of a group start together and share it."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator
from collections.abc import Sequence as Many

from pipelines.host.engine.beam.beam_search import start_search
from pipelines.host.engine.interface.engine_contract import GenerationRequest
from pipelines.host.engine.interface.submission_checks import Limits
from pipelines.host.engine.kv_cache.prefix_digests import root
from pipelines.host.engine.sequences.encoder_frames import EncoderFrames
from pipelines.host.engine.sequences.prompt_rows import PromptRows
from pipelines.host.engine.sequences.prompt_scoring import PromptScores
from pipelines.host.engine.sequences.repetition import watch_repetition
from pipelines.host.engine.sequences.sequence import Sequence


def sequence_groups(
    key: Hashable,
    request: GenerationRequest,
    eos_token_ids: frozenset[int],
    limits: Limits,
    submit_orders: Iterator[int],
    adapter: bytes = b"",
) -> list[list[Sequence]]:
    """For each prompt its leader and then the followers; every sequence has a guide of its own.

    `adapter` is the key of the request's adapter, which parts its prefixes from others.

    The sequences of a beam search are its beams.  Choices beyond what the engine runs at a time are groups of
    their own, each of which finds the prompt in the cache.
    """
    params, n = request.params, request.n
    width = n if params.beams is None else params.beams.width
    frames: Many[EncoderFrames | None] = [EncoderFrames(values) for values in request.frames]
    frames = frames or [None] * len(request.prompts)
    images = request.images or [None] * len(request.prompts)
    sequences = [
        _sequence(
            *(key, number, request, frames[number // width], images[number // width]),
            *(eos_token_ids, limits, next(submit_orders), adapter),
        )
        for number in range(len(request.prompts) * width)
    ]
    groups = [sequences[first : first + width] for first in range(0, len(sequences), width)]
    for place, group in enumerate(groups):
        if params.beams is not None:
            start_search(group, params.beams, range(place * n, (place + 1) * n))
    seated = [part for group in groups for part in _parts(group, limits.max_sequences)]
    for part in seated:
        _join(part)
        _share_scores(part, limits.vocab_size)
    return seated


def _parts(group: list[Sequence], most: int) -> list[list[Sequence]]:
    return [group[:most], *([sequence] for sequence in group[most:])]


def _sequence(
    key: Hashable,
    number: int,
    request: GenerationRequest,
    frames: EncoderFrames | None,
    images: PromptRows | None,
    eos_token_ids: frozenset[int],
    limits: Limits,
    submit_order: int,
    adapter: bytes,
) -> Sequence:
    params, beams = request.params, request.params.beams
    prompt = request.prompts[number // (request.n if beams is None else beams.width)]
    guide = request.guide if beams is None else None  # a guide that restricts beams was refused
    return Sequence(
        key=key,
        choice=number,
        token_ids=array("q", prompt),
        num_prompt=len(prompt),
        params=params,
        eos_token_ids=frozenset() if params.ignore_eos else eos_token_ids,
        stop_token_ids=frozenset(params.stop_token_ids),
        max_length=min(len(prompt) + params.max_tokens, limits.max_context),
        submit_order=submit_order,
        root=root(request.cache_salt, b"" if frames is None else frames.digest, adapter),
        tenant=request.tenant,
        frames=frames,
        adapter=request.adapter,
        images=images,
        uncut=images if limits.max_uncut else None,
        repetition=watch_repetition(params),
        guide=None if guide is None else guide(),
    )


def _join(group: list[Sequence]) -> None:
    leader, *followers = group
    leader.followers = followers
    for follower in followers:
        follower.leader = leader


def _share_scores(group: list[Sequence], vocab_size: int) -> None:
    """One collection of scores for all choices of a prompt, when the request wants them."""
    wanted = group[0].params.prompt_logprobs
    if wanted is not None:
        scores = PromptScores(group[0].num_prompt - 1, min(wanted, vocab_size))
        for member in group:
            member.scores = scores
