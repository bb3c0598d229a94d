"""The sequences of an accepted request, grouped by prompt: those of a group start together and share it."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from pipelines.host.engine.beam.beam_search import start_search
from pipelines.host.engine.interface.engine_contract import GenerationRequest
from pipelines.host.engine.interface.submission_checks import Limits
from pipelines.host.engine.kv_cache.prefix_digests import root
from pipelines.host.engine.sequences.encoder_states import EncoderStates
from pipelines.host.engine.sequences.prompt_scoring import PromptScores
from pipelines.host.engine.sequences.repetition import watch_repetition
from pipelines.host.engine.sequences.sequence import Sequence


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
    """Makes the sequences of one prompt, which share its frames and its images."""

    def __init__(self, accepted: Accepted, place: int) -> None:
        request = accepted.request
        self._accepted = accepted
        self._token_ids = request.prompts[place]
        self._frames = EncoderStates(request.frames[place]) if request.frames else None
        self._images = request.images[place] if request.images else None
        digest = b"" if self._frames is None else self._frames.digest
        self._root = root(request.cache_salt, digest, accepted.adapter_key)

    def sequence(self, number: int, submit_order: int) -> Sequence:
        """Choice or beam `number` of the request."""
        request, limits = self._accepted.request, self._accepted.limits
        params, prompt = request.params, self._token_ids
        guide = request.guide if params.beams is None else None  # a guide that restricts beams was refused
        return Sequence(
            key=self._accepted.key,
            choice=number,
            token_ids=array("q", prompt),
            num_prompt=len(prompt),
            params=params,
            eos_token_ids=frozenset() if params.ignore_eos else self._accepted.eos_token_ids,
            stop_token_ids=frozenset(params.stop_token_ids),
            max_length=min(len(prompt) + params.max_tokens, limits.max_context),
            submit_order=submit_order,
            root=self._root,
            tenant=request.origin.tenant,
            frames=self._frames,
            adapter=request.adapter,
            images=self._images,
            uncut=self._images if limits.max_uncut else None,
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
