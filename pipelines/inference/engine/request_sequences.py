"""The sequences of an accepted request, grouped by prompt: those of a group start together and share it."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from pipelines.inference.engine.beam.beam_search import start_search
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.interface.submission_checks import Limits
from pipelines.inference.engine.kv_cache.prefix_digests import root
from pipelines.inference.engine.sequences.encoder_states import EncoderStates
from pipelines.inference.engine.sequences.prompt_scoring import PromptScores
from pipelines.inference.engine.sequences.repetition import watch_repetition
from pipelines.inference.engine.sequences.sequence import PromptRequest, Sequence


class Accepted(NamedTuple):
    """A request that an engine has accepted, and what it means there.

    `limits` are those of its tokens.  `adapter_key` parts the prefixes of its adapter from others.
    """

    key: Hashable
    request: GenerationRequest
    limits: Limits
    eos_token_ids: frozenset[int]
    adapter_key: bytes = b""


def sequence_groups(accepted: Accepted, submit_orders: Iterator[int]) -> list[list[Sequence]]:
    """For each prompt its leader and then the followers; every sequence has a guide of its own.

    The sequences of a beam search are its beams.  Choices beyond what the engine runs at a time are groups of
    their own, each of which finds the prompt in the cache.
    """
    request, limits = accepted.request, accepted.limits
    params, n = request.params, request.n
    width = n if params.beams is None else params.beams.width
    groups = []
    for place in range(len(request.prompts)):
        prompt = _Prompt(accepted, place)
        numbers = range(place * width, (place + 1) * width)
        group = [prompt.sequence(number, next(submit_orders)) for number in numbers]
        if params.beams is not None:
            start_search(group, params.beams, range(place * n, (place + 1) * n))
        groups.append(group)
    seated = [part for group in groups for part in _parts(group, limits.max_sequences)]
    for part in seated:
        _join(part)
        _share_scores(part, limits.model.vocab_size)
    return seated


def _parts(group: list[Sequence], most: int) -> list[list[Sequence]]:
    return [group[:most], *([sequence] for sequence in group[most:])]


class _Prompt:
    """Makes the sequences of one prompt, which share its encoder states and its images."""

    def __init__(self, accepted: Accepted, place: int) -> None:
        self._key = accepted.key
        self._token_ids = accepted.request.prompts[place]
        self._request = _request(accepted, place)
        # a guide that restricts beams was refused
        self._guide = accepted.request.guide if accepted.request.params.beams is None else None

    def sequence(self, number: int, submit_order: int) -> Sequence:
        """Choice or beam `number` of the request."""
        return Sequence(
            key=self._key,
            choice=number,
            token_ids=array("q", self._token_ids),
            num_prompt=len(self._token_ids),
            request=self._request,
            submit_order=submit_order,
            repetition=watch_repetition(self._request.params),
            guide=None if self._guide is None else self._guide(),
        )


def _request(accepted: Accepted, place: int) -> PromptRequest:
    """What is asked of the choices of a prompt."""
    request, limits = accepted.request, accepted.limits
    encoder_states = EncoderStates(request.encoder_states[place]) if request.encoder_states else None
    images = request.images[place] if request.images else None
    params = request.params
    return PromptRequest(
        params=params,
        eos_token_ids=frozenset() if params.ignore_eos else accepted.eos_token_ids,
        stop_token_ids=frozenset(params.stop_token_ids),
        max_length=min(len(request.prompts[place]) + params.max_tokens, limits.max_context),
        root=root(
            request.cache_salt, b"" if encoder_states is None else encoder_states.digest, accepted.adapter_key
        ),
        tenant=request.origin.tenant,
        encoder_states=encoder_states,
        adapter=request.adapter,
        images=images,
        uncut=images if limits.max_uncut else None,
    )


def _join(group: list[Sequence]) -> None:
    leader, *followers = group
    leader.followers = followers
    for follower in followers:
        follower.leader = leader


def _share_scores(group: list[Sequence], vocab_size: int) -> None:
    """One collection of scores for all choices of a prompt, when the request wants them."""
    wanted = group[0].request.params.prompt_logprobs
    if wanted is not None:
        scores = PromptScores(group[0].num_prompt - 1, min(wanted, vocab_size))
        for member in group:
            member.scores = scores
