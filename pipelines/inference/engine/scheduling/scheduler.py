"""Selects which sequences run: the queue, admission, preemption, and the plan of a step."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from itertools import chain, filterfalse
from time import perf_counter

from pipelines.inference.engine.kv_cache.cache import Cache
from pipelines.inference.engine.scheduling.background_work import BackgroundWork
from pipelines.inference.engine.scheduling.draft_budget import with_draft_budget
from pipelines.inference.engine.scheduling.prompt_pieces import PromptPieces
from pipelines.inference.engine.scheduling.slot_tables import SlotTables
from pipelines.inference.engine.scheduling.step_limits import (
    end_at_branches,
    limit_background,
    limit_scoring,
    most_tokens,
    num_scored,
)
from pipelines.inference.engine.scheduling.step_plan import Plan
from pipelines.inference.engine.scheduling.step_room import EngineRoom, StepRoom
from pipelines.inference.engine.scheduling.tenant_shares import (
    TenantShares,
    WaitingSequences,
    by_turn,
    is_background,
)
from pipelines.inference.engine.sequences.policy import (
    EngineSettings,
    may_admit,
    split_budget,
)
from pipelines.inference.engine.sequences.sequence import NO_SLOT, Sequence, Slice
from pipelines.telemetry.engine_counts import Counts


@dataclass(slots=True)
class StepScheduler:
    """`running` and the waiting ones of each tenant are always sorted by priority, then `submit_order`.

    Among sequences of one tenant and one priority the oldest run.  Of several tenants, the one that holds the
    least of the engine is next, and the one that holds the most is the first of which a sequence is preempted
    when blocks run out: its last in turn.  A sequence is preempted so that a waiting one may run only where
    its tenant holds more than its fair share, and the other's tenant less.

    Running sequences have slots and blocks, waiting ones neither; their cache from before a preemption may be
    in host memory.  The next one is not overtaken, so of each tenant and priority the oldest that waits
    is next once no smaller one is waiting; the first in turn that runs is never preempted and gets tokens in
    every step, so it ends, and with it that wait.  A steady load of smaller priorities makes larger ones wait
    indefinitely, as in vLLM's priority scheduling.

    Background sequences give way: they are preempted while another one that waits has no room, and
    `background` says how many of their tokens a step computes.  The oldest get them.

    Decoding sequences get their token in every step; `pieces` says how long prompts may make it.
    """

    settings: EngineSettings
    cache: Cache
    tables: SlotTables
    counts: Counts
    background: BackgroundWork = field(init=False)
    pieces: PromptPieces = field(init=False)
    waiting: WaitingSequences = field(init=False, default_factory=WaitingSequences)
    running: list[Sequence] = field(init=False, default_factory=list)
    late: list[Sequence] = field(init=False, default_factory=list)  # of those that run: they wait for a mask

    def __post_init__(self) -> None:
        self.background = BackgroundWork(self.settings.max_background_tokens)
        self.pieces = PromptPieces(self.settings.max_step_s)

    def add(self, sequence: Sequence) -> None:
        self.waiting.add(sequence)

    def plan(self) -> Plan:
        """Choose what the next step computes; afterwards every planned sequence has a slot."""
        claimed = self._make_room() if self.waiting and self._has_several_tenants() else 0
        background = self._num_background_tokens()
        slices = self._split_budget(claimed, background)
        while self.cache.shortage(slices) > 0:
            self._preempt(self._last_in_turn())
            slices = self._split_budget(claimed, background)
        refused: list[tuple[Sequence, Exception]] = []
        if self.waiting:
            self._admit(slices, refused, background)
        while (
            self.waiting and self.running and not slices and not self.cache.is_reading
        ):  # all rest and wait for beams that cannot be admitted
            self._preempt(self._last_in_turn())
            self._admit(slices, refused, background)
        decoding = [slice for slice in slices if slice.decodes]
        prompts = [slice for slice in slices if not slice.decodes]
        prompts.sort(key=lambda slice: slice.sequence.scoring)
        num_scoring = sum(slice.sequence.scoring for slice in prompts)
        speculates = self.tables.speculation is not None and self.tables.speculation.is_due()
        if speculates:
            decoding = with_draft_budget(decoding, prompts, self.settings, self.cache)
        return Plan(decoding + prompts, len(decoding), num_scoring, refused, speculates)

    def learn(self, plan: Plan, seconds: float) -> None:
        """Record what a step took."""
        num_tokens = sum(slice.num_tokens for slice in plan.slices)
        self.pieces.learn(num_tokens - plan.num_decoding, seconds)
        if self._wants_background():
            of_background = (slice.num_tokens for slice in plan.slices if is_background(slice.sequence))
            self.background.learn(sum(of_background), seconds)

    def fork(self, leader: Sequence) -> None:
        """The prompt is computed: its followers share its blocks and run on their own from now on."""
        for follower in leader.followers:
            self._inherit(leader, follower)
        leader.followers = []

    def remove(self, sequence: Sequence) -> None:
        """Remove one sequence from the queues and free its slot and blocks; its followers stay."""
        if sequence.leader is not None:
            sequence.leader.followers.remove(sequence)
        elif sequence.followers:
            self._replace_leader(sequence)
        self.cache.release(sequence)
        self._stop(sequence)

    def _clear_background(self, sequence: Sequence) -> bool:
        """Preempt background sequences while another one that waits has no room; whether any was.

        They are in no slice of a step for which another one waits.
        """
        num_running = len(self.running)
        while not is_background(sequence) and self._has_background() and not self._fits(sequence):
            self._preempt(self.running[-1])
        return len(self.running) < num_running

    def _has_background(self) -> bool:
        """Whether any runs: they are the last in turn."""
        return bool(self.running) and is_background(self.running[-1])

    def _wants_background(self) -> bool:
        """Whether any runs or waits."""
        return self._has_background() or any(map(is_background, self.waiting.heads))

    def _num_background_tokens(self) -> int:
        """Tokens of background sequences in the next step; 0 where there are none."""
        if not self._wants_background():
            return 0
        others = filterfalse(is_background, chain(self.running, self.waiting.heads))
        return self.background.num_tokens(list(others))

    def _split_budget(self, claimed: int, background: int) -> list[Slice]:
        """The slices of what runs; prompts leave `claimed` tokens of the step, but at most half of theirs."""
        pending = [sequence.num_pending for sequence in self.running]
        if self.late:
            self._let_late_rest(pending)
        has_prompts = max(pending, default=0) > 1
        if has_prompts:  # decoding sequences have nothing to score
            limit_scoring(self.running, pending, self.settings.max_scored_tokens)
            if self.cache.states.used:
                end_at_branches(self.running, pending)
        if self._has_background():
            limit_background(self.running, pending, background)
        budget = self.settings.max_step_tokens
        if has_prompts:
            budget = most_tokens(zip(self.running, pending, strict=True), budget, self.pieces)
        counts = split_budget(pending, budget - min(claimed, (budget - pending.count(1)) // 2))
        if has_prompts:
            counts = [sequence.num_uncut(count) for sequence, count in zip(self.running, counts, strict=True)]
        return [
            Slice(sequence, sequence.num_cached, count)
            for sequence, count in zip(self.running, counts, strict=True)
            if count
        ]

    def _let_late_rest(self, pending: list[int]) -> None:
        """Sequences whose masks are not ready are in no step; the others go on."""
        self.late = [sequence for sequence in self.late if sequence.waits_for_mask]
        for place, sequence in enumerate(self.running):
            if sequence in self.late:
                pending[place] = 0

    def _has_several_tenants(self) -> bool:
        if len(self.waiting.tenants) > 1:
            return True
        (tenant,) = self.waiting.tenants
        return any(sequence.request.tenant != tenant for sequence in self.running)

    def _shares(self) -> TenantShares:
        return TenantShares(
            self.running, self.waiting.tenants, self.settings.max_sequences, self.cache.pool.num_blocks
        )

    def _last_in_turn(self) -> Sequence:
        """The one to preempt; not the first in turn, unless it is alone."""
        return self._shares().last_in_turn(self.running[1:]) or self.running[0]

    def _make_room(self) -> int:
        """Preempt what tenants hold beyond their fair share, while the next to run needs it for its own.

        Returns how many tokens of the step the next to run may claim: all it has, within its fair share.
        """
        shares = self._shares()
        sequence = self.waiting.first(shares)
        if not shares.may_claim(sequence, self.cache.num_needed(sequence, [])):
            return 0
        while not self._fits(sequence):
            victim = shares.last_beyond(self.running[1:], sequence.request.params.priority)
            if victim is None:
                return 0
            shares.add(victim, -1)
            self._preempt(victim)
        return sequence.num_pending

    def _fits(self, sequence: Sequence) -> bool:
        """Whether there are slots and blocks for a waiting sequence."""
        if not self.tables.has_room(sequence):
            return False
        reserved, matched = self.cache.num_reserved(self.running), self.cache.match(sequence)
        return self._has_blocks(sequence, matched, reserved, self._num_resting())

    def _has_blocks(self, sequence: Sequence, matched: list[int], reserved: int, num_resting: int) -> bool:
        """Whether there are blocks for a waiting sequence beside those that running ones are about to take:
        `reserved` for their pending tokens, and one more for each, but not for the beams that rest.
        """
        needed = self.cache.num_needed(sequence, matched)
        num_growing = self.tables.slots.num_taken - num_resting
        return may_admit(needed, reserved, num_growing, self.cache.pool.num_free)

    def _num_resting(self) -> int:
        return sum(not sequence.num_pending for sequence in self.running)

    def _admit(self, slices: list[Slice], refused: list[tuple[Sequence, Exception]], background: int) -> None:
        """Admit those next in line while slots, blocks and what `slices` leave of the step last.

        The first that has to wait ends it: the next in line is not overtaken, or a sequence that needs much
        would wait for as long as small ones come.  One that a slot refuses goes to `refused`, and the next
        one is tried.  Without a `background` token in the step, background sequences are preempted for it.
        """
        engine, step = self._engine_room(), self._step_room(slices, background)
        while step.num_tokens > 0 and self.waiting and (self.tables.slots.free or self._has_background()):
            sequence = self.waiting.first(engine.shares)
            if not background and self._clear_background(sequence):
                engine = self._engine_room(with_shares=True)  # what was preempted waits, of whatever tenant
            num_rows = self.settings.max_scored_tokens - num_scored(slices) if sequence.scoring else None
            if not self.tables.has_room(sequence) or not step.allows(sequence, num_rows):
                break
            matched = self._matched(sequence, engine)
            if matched is None:
                break
            try:
                self._start(sequence, matched)
            except Exception as error:  # the fault of its own parameters: it must not stop the others
                refused.append((sequence, error))
                continue
            engine.take(sequence, self.cache.num_reserved([sequence]))
            if num_tokens := step.take(sequence, num_rows):
                slices.append(Slice(sequence, sequence.num_cached, num_tokens))

    def _engine_room(self, with_shares: bool = False) -> EngineRoom:
        """What running sequences hold; with the shares of tenants where it depends on them who is next."""
        return EngineRoom(
            num_reserved=self.cache.num_reserved(self.running),
            num_resting=self._num_resting(),
            shares=self._shares() if with_shares or len(self.waiting.tenants) > 1 else None,
        )

    def _step_room(self, slices: list[Slice], background: int) -> StepRoom:
        """What `slices` leave of the step, in which background sequences may have `background` tokens."""
        pairs = ((slice.sequence, slice.num_tokens) for slice in slices)
        most = most_tokens(pairs, self.settings.max_step_tokens, self.pieces)
        in_background = (slice.num_tokens for slice in slices if is_background(slice.sequence))
        return StepRoom(
            num_tokens=most - sum(slice.num_tokens for slice in slices),
            num_background=background - sum(in_background),
        )

    def _matched(self, sequence: Sequence, room: EngineRoom) -> list[int] | None:
        """The blocks in which the next in line finds its first tokens; None where it has to wait for blocks.

        It waits while there are too few free ones, and while the file of prefixes is read for it.
        """
        matched = self.cache.match(sequence)
        if not self._has_blocks(sequence, matched, room.num_reserved, room.num_resting):
            return None
        return matched if self.cache.restore(sequence, matched) else None

    def _start(self, sequence: Sequence, matched: list[int]) -> None:
        """Give the next in line a slot (one more for each follower) and the matched blocks."""
        self.waiting.remove(sequence)
        self.tables.take(sequence)
        self.cache.attach(sequence, matched)
        insort(self.running, sequence, key=by_turn)
        if sequence.num_reused is None:
            self._count_prompt(sequence)

    def _count_prompt(self, sequence: Sequence) -> None:
        sequence.num_reused, sequence.admitted_s = sequence.num_cached, perf_counter()
        self.counts.prompt_tokens += sequence.num_prompt
        if self.settings.reuse_prefixes:
            self.counts.prefix_query_tokens += sequence.num_prompt
            self.counts.prefix_hit_tokens += sequence.num_cached

    def _preempt(self, sequence: Sequence) -> None:
        """Move a sequence and its followers back to the queue; what is not swapped out is computed again."""
        self.counts.preemptions += 1
        self.counts.swap_preemptions += self.cache.evict(sequence)
        self._stop(sequence)
        for follower in sequence.followers:
            self.tables.free(follower)
        self.add(sequence)

    def _replace_leader(self, leader: Sequence) -> None:
        """The first follower becomes the leader, with the tokens that the leader has computed."""
        successor, *others = leader.followers
        leader.followers, successor.followers = [], others
        for other in others:
            other.leader = successor
        if leader.slot == NO_SLOT:
            successor.leader, successor.num_reused, successor.num_cached = (
                None,
                leader.num_reused,
                leader.num_cached,
            )
            successor.admitted_s = leader.admitted_s
            self.add(successor)
        else:
            self._inherit(leader, successor)
        self.cache.swap.transfer(leader, successor)

    def _inherit(self, leader: Sequence, follower: Sequence) -> None:
        follower.leader = None
        follower.num_reused, follower.admitted_s = leader.num_reused, leader.admitted_s
        self.cache.fork(leader, follower)
        insort(self.running, follower, key=by_turn)

    def _stop(self, sequence: Sequence) -> None:
        if sequence.slot == NO_SLOT:
            self.waiting.remove(sequence)
        elif sequence in self.running:  # followers are not
            self.running.remove(sequence)
        self.tables.free(sequence)
