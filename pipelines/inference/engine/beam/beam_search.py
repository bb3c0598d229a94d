"""The beam search over one prompt: its sequences, the candidates they report, the results of its choices.

The arithmetic of a search is in `beam_group`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pipelines.inference.engine.scheduling.scheduler import StepScheduler
from pipelines.inference.engine.sequences.beam_group import Beam, BeamGroup, Ending, num_candidates
from pipelines.inference.engine.sequences.sequence import Search, Sequence
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.sampling_params import Beams


@dataclass(slots=True, eq=False)
class BeamSearch:
    """`width` sequences that search together; none of them is removed before the search is over.

    The first of `beams` are the group's open ones, in its order.  A beam that has reported its most likely
    next tokens rests, with nothing pending, until all have; a preemption takes the report back.  `choices`
    maps each choice that is not cancelled to its place among the hypotheses.
    """

    group: BeamGroup
    beams: list[Sequence]
    choices: dict[int, int]
    tops: dict[Sequence, TokenLogprobs] = field(default_factory=dict)

    @property
    def open_beams(self) -> list[Sequence]:
        return self.beams[: len(self.group.scores)]

    @property
    def waits(self) -> bool:
        """Whether the report of a beam is missing."""
        return any(beam.num_pending for beam in self.open_beams)

    def report(self, beam: Sequence, top: TokenLogprobs) -> list[Beam] | None:
        """Record the candidates that may follow a beam.

        Returns the next open beams once all have reported, [] when the search is over, else None.
        """
        self.tops[beam] = top
        if self.waits:
            return None
        beams = self.open_beams
        return self.group.advance([one.token_ids for one in beams], [self.tops[one] for one in beams])

    def endings(self) -> list[Ending]:
        return [self._ending(choice, place) for choice, place in self.choices.items()]

    def _ending(self, choice: int, place: int) -> Ending:
        found, leader = self.group.finished[place], self.beams[0]
        named = found.end is not None and found.end not in leader.request.eos_token_ids
        finish = "length" if found.end is None else "stop"
        return Ending(choice, found.token_ids.tolist(), found.logprobs, finish, found.end if named else None)


def start_search(beams: list[Sequence], wanted: Beams, choices: Iterable[int]) -> None:
    """Make the sequences of one prompt, the leader first, the beams of a search; `choices` get its best."""
    leader, request = beams[0], beams[0].request
    ends = request.eos_token_ids | request.stop_token_ids
    group = BeamGroup(wanted, ends, request.max_length - leader.num_prompt, request.params.logprobs)
    search = BeamSearch(group, beams, {choice: place for place, choice in enumerate(choices)})
    num_logprobs = max(num_candidates(wanted.width, len(ends)), group.num_logprobs or 0)
    params = replace(request.params, temperature=0.0, logprobs=num_logprobs)
    searching = replace(request, params=params)
    for beam in beams:
        beam.search, beam.request = search, searching


def grow_beams(search: Search, grown: list[Beam], scheduler: StepScheduler) -> None:
    """Fork each next beam from its parent's blocks and append its token.

    The first beam of a parent takes the parent's sequence; the others take sequences that have no next beam.
    """
    parents = [search.beams[beam.parent] for beam in grown]
    staying = set(parents)
    spare = [beam for beam in search.beams if beam not in staying]
    search.beams = []
    for parent in parents:
        beam = parent if parent in staying else spare.pop()
        if beam is not parent:
            scheduler.cache.release(beam)
            scheduler.cache.fork(parent, beam)
            beam.token_ids = parent.token_ids[:]
        staying.discard(parent)
        search.beams.append(beam)
    for beam, (_, token_id, _) in zip(search.beams, grown, strict=True):
        beam.token_ids.append(token_id)
        scheduler.tables.slots.last_token[beam.slot] = token_id
        scheduler.tables.sampling.append(beam.slot, token_id)


def whole_searches(sequences: list[Sequence]) -> list[Sequence]:
    """`sequences` and all that search with one of them, each once, leaders before their followers."""
    searches = dict.fromkeys(sequence.search for sequence in sequences if sequence.search is not None)
    alone = [sequence for sequence in sequences if sequence.search is None]
    return alone + [beam for search in searches for beam in search.beams]


def choices_of(sequence: Sequence) -> list[int]:
    """The choices that end when a sequence does; the first beam of a search stands for all of its choices."""
    search = sequence.search
    if search is None:
        return [sequence.choice]
    return list(search.choices) if sequence is search.beams[0] else []


def sequences_to_cancel(active: dict[int, Sequence], choice: int | None) -> list[Sequence]:
    """The request's sequences that no choice needs once `choice` is cancelled (None: once all are)."""
    if choice is None:
        return list(active.values())
    found = [sequence for sequence in active.values() if choice in choices_of(sequence)]
    for sequence in found:
        if sequence.search is not None:
            del sequence.search.choices[choice]
    return whole_searches([one for one in found if one.search is None or not one.search.choices])
