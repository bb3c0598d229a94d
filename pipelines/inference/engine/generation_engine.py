"""The engine of generative models: requests in, tokens out, one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count, islice
from time import perf_counter, sleep
from typing import ClassVar, Literal

from pipelines.adapters.weights import AdapterWeights, HoldsAdapters, LinearShape, WithoutAdapters
from pipelines.base.errors import EngineError
from pipelines.inference.contracts.model_shape import ModelShape
from pipelines.inference.contracts.routed_experts import ExpertRecord
from pipelines.inference.contracts.step import Sampled, Step
from pipelines.inference.engine.active_requests import ActiveRequests
from pipelines.inference.engine.beam.beam_checks import check_beams
from pipelines.inference.engine.commit import Commit
from pipelines.inference.engine.interface.engine_contract import (
    EngineKind,
    EngineView,
    GenerationRequest,
    Identity,
)
from pipelines.inference.engine.interface.outputs import Output
from pipelines.inference.engine.interface.submission_checks import (
    Limits,
    check,
    check_encoder_states,
    check_images,
    check_routed_experts,
)
from pipelines.inference.engine.kv_cache.adapter_keys import AdapterKeys
from pipelines.inference.engine.kv_cache.block_map import block_map
from pipelines.inference.engine.kv_cache.cache import Cache
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.engine.kv_cache.prefix_file.prefix_file import PrefixFile
from pipelines.inference.engine.kv_cache.stored_prefixes import (
    MIN_TOKENS,
    BlockContents,
    StoredPrefixes,
)
from pipelines.inference.engine.packing import pack
from pipelines.inference.engine.request_sequences import Accepted, sequence_groups
from pipelines.inference.engine.result_checks import check_result
from pipelines.inference.engine.scheduling.scheduler import StepScheduler
from pipelines.inference.engine.scheduling.slot_tables import SlotTables
from pipelines.inference.engine.sequence_views import in_turn, view_of
from pipelines.inference.engine.sequences.policy import EngineSettings, blocks_for
from pipelines.inference.engine.sequences.slots import SequenceSlots
from pipelines.inference.engine.speculation.speculation_slots import SpeculationSlots
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.inference.sampling.step_context import StepContext
from pipelines.telemetry.engine_counts import Counts, ExpertUse
from pipelines.telemetry.step_profile import DECODING, PROMPTS, StepProfile
from pipelines.wire.engine_view import MAX_SEQUENCES

LATE_S = 0.001


@dataclass(frozen=True, slots=True)
class StepBody:
    """What computes the steps of an engine."""

    compute: Callable[[StepContext], Sampled]
    """The model, then the sampler."""
    adapters: HoldsAdapters = field(default_factory=WithoutAdapters)
    """Holds the adapters that sequences name: the session of the last decoder."""
    routed_experts: ExpertRecord | None = None
    """The choices of the tokens in the cache of the last decoder, where it records them."""
    profile: StepProfile = field(default_factory=StepProfile)
    """The engine and the lines of the body mark in it what a step spends its time on."""
    close: Callable[[], object] = lambda: None
    """Frees the models; no step follows."""


class GenerationEngine:
    """Continuous batching over a paged cache of `cache.num_blocks` blocks, a hard bound.

    Not thread-safe: one thread calls everything.  `body` computes a step: model, then sampler.  A step is a
    transaction: nothing of it is visible before `commit`, and when `body` raises, its blocks go back, its
    own sequences end with an error, and the next `step` runs as if they had never been submitted. Sequences
    to be swapped out are not its own: they continue, and are computed again.

    `model` is the shape of the body's last decoder, its context cut to that of the engine.
    """

    kind: ClassVar[Literal[EngineKind.STEPPED]] = EngineKind.STEPPED

    def __init__(
        self,
        body: StepBody,
        settings: EngineSettings,
        model: ModelShape,
        cache: CacheSize,
        eos_token_ids: frozenset[int],
    ) -> None:
        self.limits = Limits(
            max_sequences=settings.max_sequences,
            model=model,
            cache_tokens=cache.num_blocks * model.block_tokens,
            max_uncut=settings.max_uncut if model.whole_images else 0,
        )
        self.slots = _slots(self.limits, cache)
        self.cache = _cache(self.slots, settings, model, cache)
        self._sampling = SamplingSlots(settings.max_sequences, model.vocab_size)
        self._totals = Counts()
        self._speculation = SpeculationSlots(settings.max_sequences) if settings.num_draft_tokens else None
        tables = SlotTables(self.slots, self._sampling, self._speculation)
        self.scheduler = StepScheduler(settings, self.cache, tables, self._totals)
        self._adapters = body.adapters
        self._adapter_keys = AdapterKeys()
        self._body = body.compute
        self._close_body = body.close
        self.profile = body.profile
        self._eos_token_ids = eos_token_ids
        self._active = ActiveRequests(self.scheduler)
        self.routed_experts = body.routed_experts
        self._commit = Commit(self.scheduler, self._active, body.routed_experts)
        self._submit_orders = count(1)

    def submit(self, key: Hashable, request: GenerationRequest) -> None:
        """Queue the choices of a request.  Raises RequestError, and then nothing was queued.

        `key` names the request until all its choices have finished or were cancelled.
        """
        if key in self._active:
            raise ValueError(f"request {key!r} is already running")
        adapter = self._adapter_keys.get(request.adapter)
        if adapter is None:
            raise EngineError(f"adapter {request.adapter} is not loaded")
        limits = check_encoder_states(request, self.limits)
        check(request, limits)
        check_images(request, limits)
        check_routed_experts(request, self.routed_experts)
        if request.params.beams is not None:
            check_beams(request, request.params.beams, self._eos_token_ids, limits)
        accepted = Accepted(key, request, limits, self._eos_token_ids, adapter)
        groups = sequence_groups(accepted, self._submit_orders)
        self._active.add(key, [sequence for group in groups for sequence in group])
        for leader, *_ in groups:
            self.scheduler.add(leader)

    def cancel(self, key: Hashable, choice: int | None = None) -> None:
        """End one choice, or all, and free its slot and blocks now; no Output follows.

        What is unknown or finished already is no error: the client may have disconnected while it finished.
        """
        self._active.cancel(key, choice)

    def abort(self, key: Hashable) -> list[Output]:
        """End all choices of a request now, each with an Output that says so."""
        return self._active.abort(key)

    @property
    def linears(self) -> Mapping[str, LinearShape]:
        """The linear layers that adapters may change; {} where none may."""
        return self._adapters.linears

    def put_adapter(self, number: int, weights: AdapterWeights) -> None:
        """Hold an adapter for requests that name `number`."""
        self._adapters.put_adapter(number, weights)
        self._adapter_keys.put(number, weights)

    def drop_adapter(self, number: int) -> None:
        """Free an adapter that no request in the engine names."""
        self._adapter_keys.drop(number)
        self._adapters.drop_adapter(number)

    def reset_prefix_cache(self) -> None:
        """No later prompt reuses what is cached now; running sequences keep their blocks."""
        self.cache.remove_prefixes()

    def store_prefixes(self, file: PrefixFile, contents: BlockContents, min_tokens: int = MIN_TOKENS) -> None:
        """From now on blocks that prompts reuse outlive the engine, in a file that it closes.

        `contents` has the blocks of all that the body keeps of a token.  Only prefixes of at least
        `min_tokens` tokens go there.
        """
        block_tokens = self.limits.model.block_tokens
        self.cache.stored = StoredPrefixes(file, contents, self.cache.pool, block_tokens, min_tokens)

    def close(self) -> None:
        """Close the body; no step follows."""
        if self.cache.stored is not None:
            self.cache.stored.close()
        self._close_body()

    @property
    def has_work(self) -> bool:
        """Whether a step has something to do: sequences, or blocks for the file of prefixes."""
        return len(self._active) > 0 or self.cache.has_blocks_to_store

    @property
    def num_active(self) -> int:
        """Sequences that have not ended: the choices of a request, or all beams of a search."""
        return self._active.num_sequences

    @property
    def step_tokens(self) -> int:
        """Tokens that all steps have computed, draft tokens among them."""
        return self._totals.step_tokens + self._totals.draft_tokens

    def seed_cost(self, seconds: Mapping[int, float], change_s: float = 0.0) -> None:
        """Seed what steps take with the times of idle ones, tokens → seconds, and of a change of size."""
        self.scheduler.pieces.seed(seconds)
        if self._speculation is not None:
            self._speculation.cost.seed_cost(seconds, change_s)

    def counts(self) -> Counts:
        """What is held now and what was done so far; the caller's own copy."""
        pool, swap, running = self.cache.pool, self.cache.swap, self.slots.num_taken
        stored = self.cache.stored
        return replace(
            self._totals,
            running=running,
            waiting=self.num_active - running,
            swapped=sum(len(sequence.group) for sequence in self.scheduler.waiting if sequence.host_blocks),
            blocks_used=pool.num_blocks - pool.num_free,
            blocks_reusable=pool.num_reusable,
            blocks_total=pool.num_blocks,
            host_blocks_used=swap.num_blocks - swap.num_free,
            host_blocks_total=swap.num_blocks,
            block_tokens=self.limits.model.block_tokens,
            reuses_prefixes=self.scheduler.settings.reuse_prefixes,
            prefix_blocks_read=0 if stored is None else stored.num_read,
            prefix_blocks_written=0 if stored is None else stored.num_written,
            routed_experts=_use(self.routed_experts),
            accepted_per_position=[*self._totals.accepted_per_position],
        )

    def view(self, identify: Callable[[Hashable], Identity]) -> EngineView:
        """What runs and waits, and who owns which block; between two steps."""
        shown = list(islice(in_turn(self.scheduler), MAX_SEQUENCES))
        views = [view_of(sequence, identify(sequence.key)) for sequence in shown]
        return EngineView("generation", views, block_map(self.cache, shown))

    def step(self) -> list[Output]:
        """Plan → reserve → run the body → commit. [] when there are no outputs."""
        mark, start_s = self.profile.mark, perf_counter()
        self.profile.start()
        self.cache.begin_step()
        plan = self.scheduler.plan()
        fail = self._active.fail
        outputs = [output for sequence, error in plan.refused for output in fail(sequence.group, error)]
        if plan.refused or not plan.slices:  # a refusal may have ended a planned sequence: plan again
            if self.scheduler.late:
                sleep(LATE_S)  # all that runs waits for masks, which threads compute
            return outputs
        mark("plan")
        try:
            with self.cache.reserve(plan.slices) as moves:
                mark("reserve")
                step = pack(plan, self.slots, moves)
                mark("pack")
                sampled = self._run(step, plan.speculates)
                mark("body")
        except Exception as error:
            self._totals.failed_steps += 1
            return outputs + fail(plan.sequences, error)
        try:
            outputs.extend(self._commit.step(plan, step, sampled))
        except Exception as error:
            self._totals.failed_steps += 1
            return outputs + fail(self._active.among(plan.sequences), error)
        mark("commit")
        self.scheduler.learn(plan, perf_counter() - start_s)
        kind = DECODING if plan.num_decoding == len(plan.slices) else PROMPTS
        self.profile.end(kind, step.num_tokens, step.num_seqs, len(sampled.token_ids))
        return outputs

    def _run(self, step: Step, speculates: bool) -> Sampled:
        start_s = perf_counter()
        sampled = self._body(StepContext(step, self._sampling, self._speculation))
        check_result(step, sampled)
        if self._speculation is not None and speculates:
            num_drafted = 0 if sampled.num_drafted is None else int(sampled.num_drafted.sum())
            self._speculation.cost.learn(step.num_tokens + num_drafted, perf_counter() - start_s)
        return sampled


def _use(routed: ExpertRecord | None) -> ExpertUse | None:
    return None if routed is None else ExpertUse(routed.num_choices, routed.busiest, routed.unused)


def _slots(limits: Limits, cache: CacheSize) -> SequenceSlots:
    """One slot for each sequence that runs, its tables wide enough for the longest context."""
    model = limits.model
    return SequenceSlots(
        limits.max_sequences,
        blocks_for(limits.max_context, model.block_tokens),
        encoder_columns=cache.num_blocks if model.encoder_hidden_size else 0,
        encoder_hidden_size=model.encoder_hidden_size,
        has_shifts=model.mrope_axes > 1,
    )


def _cache(slots: SequenceSlots, settings: EngineSettings, model: ModelShape, size: CacheSize) -> Cache:
    if 0 < size.num_states < 2 * settings.max_sequences:
        raise ValueError(f"{size.num_states} rows for the states of {settings.max_sequences} sequences")
    return Cache(
        size.num_blocks,
        model.block_tokens,
        slots,
        reuse_prefixes=settings.reuse_prefixes,
        num_host_blocks=size.num_host_blocks,
        num_states=size.num_states,
    )
