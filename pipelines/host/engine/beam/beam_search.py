"""The beams of one prompt as sequences: who has reported, who grows from whom, what the choices get.

Knows sequences, their scheduler and their cache; knows nothing of steps, models or clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pipelines.host.engine.beam.beam_group import Beam, BeamGroup, num_candidates
from pipelines.host.engine.scheduler import Scheduler
from pipelines.host.engine.sequence import Sequence
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.sampling_params import Beams


class Ending(NamedTuple):
    """What a choice gets, all at once: an Output's fields in their order."""

    choice: int
    token_ids: list[int]
    logprobs: list[TokenLogprobs]
    finish: str
    stop_token_id: int | None


@dataclass(slots=True, eq=False)
class BeamSearch:
    """`width` sequences that search together; all of them live until the search is over.

    The first of `beams` are the group's open ones, in its order.  One that has reported its likeliest next
    tokens rests, with nothing pending, until all have; a preemption takes the report back.  `choices` are
    those that somebody waits for: number → place among the hypotheses.
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

    def report(self, beam: Sequence, top: TokenLogprobs, scheduler: Scheduler) -> bool:
        """Note what may follow a beam; whether that ended the search.  The last to report lets all grow."""
        self.tops[beam] = top
        scheduler.rows.last_token[beam.row] = beam.token_ids[-1]
        if self.waits:
            return False
        beams = self.open_beams
        grown = self.group.advance([one.token_ids for one in beams], [self.tops[one] for one in beams])
        if grown:
            self._branch(grown, scheduler)
            self._append(grown, scheduler)
        return not grown

    def endings(self) -> list[Ending]:
        return [self._ending(choice, place) for choice, place in self.choices.items()]

    def _ending(self, choice: int, place: int) -> Ending:
        found, leader = self.group.finished[place], self.beams[0]
        named = found.end is not None and found.end not in leader.eos_token_ids
        finish = "length" if found.end is None else "stop"
        return Ending(choice, found.token_ids.tolist(), found.logprobs, finish, found.end if named else None)

    def _branch(self, grown: list[Beam], scheduler: Scheduler) -> None:
        """Put each next beam on its parent's blocks; the first of a parent stays where that is."""
        parents = [self.beams[beam.parent] for beam in grown]
        staying = set(parents)
        spare = [beam for beam in self.beams if beam not in staying]
        self.beams = []
        for parent in parents:
            beam = parent if parent in staying else spare.pop()
            if beam is not parent:
                scheduler.cache.release(beam)
                scheduler.cache.fork(parent, beam)
                beam.token_ids = parent.token_ids[:]
            staying.discard(parent)
            self.beams.append(beam)

    def _append(self, grown: list[Beam], scheduler: Scheduler) -> None:
        for beam, (_, token_id, _) in zip(self.beams, grown, strict=True):
            beam.token_ids.append(token_id)
            scheduler.rows.last_token[beam.row] = token_id
            scheduler.sampling.append(beam.row, token_id)


def begin(beams: list[Sequence], asked: Beams, choices: Iterable[int]) -> None:
    """Make sequences of one prompt, the leader first, the beams of a search; `choices` get its best."""
    leader = beams[0]
    ends = leader.eos_token_ids | leader.stop_token_ids
    group = BeamGroup(asked, ends, leader.max_length - leader.num_prompt, leader.params.logprobs)
    search = BeamSearch(group, beams, {choice: place for place, choice in enumerate(choices)})
    num_logprobs = max(num_candidates(asked.width, len(ends)), group.num_logprobs or 0)
    params = replace(leader.params, temperature=0.0, logprobs=num_logprobs)
    for beam in beams:
        beam.search, beam.params = search, params


def whole(sequences: list[Sequence]) -> list[Sequence]:
    """`sequences` and all that search with one of them, each once, leaders before their followers."""
    searches = dict.fromkeys(sequence.search for sequence in sequences if sequence.search is not None)
    alone = [sequence for sequence in sequences if sequence.search is None]
    return alone + [beam for search in searches for beam in search.beams]


def answered(sequence: Sequence) -> list[int]:
    """The choices that end when a sequence does; the first of the beams stands for all of a search."""
    search = sequence.search
    if search is None:
        return [sequence.choice]
    return list(search.choices) if sequence is search.beams[0] else []


def given_up(live: dict[int, Sequence], choice: int | None) -> list[Sequence]:
    """Those of a request's sequences that nobody waits for without `choice` (None: without any)."""
    if choice is None:
        return list(live.values())
    found = [sequence for sequence in live.values() if choice in answered(sequence)]
    for sequence in found:
        if sequence.search is not None:
            del sequence.search.choices[choice]
    return whole([one for one in found if one.search is None or not one.search.choices])
