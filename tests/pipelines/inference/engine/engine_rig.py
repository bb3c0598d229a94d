"""An engine over a `FakeSession`, watched: every step and every state in between is checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from engine_invariants import snapshot, violations
from numpy.typing import NDArray

from ops import numpy_ops
from pipelines.adapters.weights import WithoutAdapters
from pipelines.inference.backends.fake_decoder import FakeSession, fake_logits
from pipelines.inference.contracts.step import NO_STATE, RecurrentStates, Sampled, Step
from pipelines.inference.engine.generation_engine import GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.interface.outputs import Output
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.engine.sequences.policy import EngineSettings
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.requests import Origin
from pipelines.wire.sampling_params import SamplingParams

VOCAB_SIZE = 97
SETTING_NAMES = {each.name for each in dataclasses.fields(EngineSettings)}
SETTINGS: dict[str, Any] = {"max_sequences": 4, "max_step_tokens": 16}
SESSION: dict[str, Any] = {"vocab_size": VOCAB_SIZE, "block_tokens": 4, "max_context": 200}


@dataclass
class Text:
    """All that one choice gave."""

    token_ids: list[int] = field(default_factory=list)
    finish: str | None = None
    stop_token_id: int | None = None
    num_cached: int = 0
    prompt_logprobs: list[TokenLogprobs] | None = None
    outputs: list[Output] = field(default_factory=list)


class Rig:
    """`texts[key, choice]` is what came so far; `steps` are the steps that were computed."""

    def __init__(
        self,
        num_blocks: int = 64,
        num_host_blocks: int = 0,
        num_stored_states: int = 8,
        eos_token_ids: frozenset[int] = frozenset(),
        **more: Any,
    ) -> None:
        """`more`: fields of the engine's settings and of its session."""
        settings = EngineSettings(**SETTINGS | {name: more.pop(name) for name in SETTING_NAMES & {*more}})
        self.session = FakeSession(**SESSION | more)
        self.session.reserve(settings.max_step_tokens, settings.max_sequences)
        num_states = 2 * settings.max_sequences + num_stored_states if self.session.keeps_states else 0
        self.session.allocate(num_blocks, num_host_blocks, num_states)
        self.draft_token: Callable[[StepContext], StepContext] = lambda context: context
        self.before: Callable[[StepContext], None] = lambda context: None
        self.after: Callable[[Step], None] = lambda step: None
        self.masked: Callable[[Logits], Logits] = lambda logits: logits
        self.steps: list[Step] = []
        self.texts: dict[tuple[Hashable, int], Text] = {}
        self.engine = GenerationEngine(
            StepBody(self._body, self.session if self.session.num_linears else WithoutAdapters()),
            settings,
            self.session.shape,
            CacheSize(num_blocks, num_states, num_host_blocks),
            eos_token_ids,
        )

    def _body(self, context: StepContext) -> Sampled:
        check_step(context.step, self.engine.scheduler.settings, self.session)
        context = self.draft_token(context)
        step = context.step
        self.steps.append(step)
        self.before(context)
        logits = Logits(self.session.run(step), context)
        self.after(step)
        return sample(self.masked(logits))

    def submit(
        self,
        key: Hashable,
        *prompts: list[int],
        n: int = 1,
        salt: str = "",
        tenant: str = "",
        encoder_states: Sequence[NDArray[np.float32]] = (),
        images: Sequence[PromptEmbeds | None] = (),
        adapter: int = 0,
        **params: object,
    ) -> None:
        wanted = SamplingParams(**{"temperature": 0.0, **params})  # type: ignore[arg-type]
        extras = {"encoder_states": list(encoder_states), "images": list(images), "adapter": adapter}
        origin = Origin(tenant=tenant)
        self.engine.submit(key, GenerationRequest(list(prompts), wanted, n, salt, origin, **extras))
        for choice in range(len(prompts) * n):
            self.texts[key, choice] = Text()

    def step(self) -> list[Output]:
        outputs = self.engine.step()
        self.check()
        for output in outputs:
            text = self.texts[output.key, output.choice]
            assert text.finish is None, f"{output} came after the end"
            text.outputs.append(output)
            assert output.piece.num_tokens == len(output.piece.token_ids)
            text.token_ids += output.piece.token_ids
            text.finish, text.stop_token_id = output.piece.finish, output.piece.stop_reason
            text.num_cached = output.piece.num_cached
            logprobs = output.piece.logprobs
            if logprobs is not None and logprobs.prompt is not None:
                assert len(text.outputs) == 1, "scores come once, at first"
                text.prompt_logprobs = logprobs.prompt
        return outputs

    def cancel(self, key: Hashable, choice: int | None = None) -> None:
        self.engine.cancel(key, choice)
        self.check()

    def preempt(self) -> None:
        """Set the youngest back between two steps, as if blocks had run out."""
        self.engine.scheduler._preempt(self.engine.scheduler.running[-1])
        self.check()

    def check(self) -> None:
        assert violations(snapshot(self.engine)) == []

    def run(self, max_steps: int = 3000) -> None:
        """Until nothing is left; everything must have been given back."""
        for _ in range(max_steps):
            if not self.engine.has_work:
                break
            self.step()
        counts = self.engine.counts()
        assert (counts.running, counts.waiting, counts.swapped) == (0, 0, 0)
        assert (counts.blocks_used, counts.host_blocks_used) == (0, 0)
        assert self.engine.step() == []


def check_step(step: Step, limits: EngineSettings, session: FakeSession) -> None:
    """What `Step` promises."""
    counts = np.diff(step.starts)
    assert step.starts[0] == 0
    assert (counts >= 1).all()
    assert step.num_tokens == step.starts[-1] == len(step.positions) <= limits.max_step_tokens
    assert (step.num_past + counts <= step.num_blocks * session.shape.block_tokens).all()
    assert step.max_context == (step.num_past + counts).max()
    assert step.block_table.shape == (step.num_seqs, step.num_blocks.max())
    within = np.concatenate(
        [past + np.arange(count) for past, count in zip(step.num_past, counts, strict=True)]
    )
    assert (step.positions == within).all()
    assert len(np.unique(step.logit_slots)) == step.num_sampled <= limits.max_sequences
    assert step.num_scored <= limits.max_scored_tokens
    if step.scored is not None:
        assert step.scored.ids.dtype == step.scored.top_counts.dtype == np.int64
        assert len(step.scored.top_counts) == step.num_scored
    assert step.num_logits == step.num_sampled + step.num_scored
    assert (np.diff(step.logit_indices) >= 0).all()
    check_moves(step, session)
    check_states(step, session)
    check_encoder_states(step, session)
    for name in ("token_ids", "positions", "logit_indices"):
        assert getattr(step, name).dtype == np.int64, name
    for name in ("starts", "num_past", "block_table", "num_blocks", "logit_slots", "slots"):
        assert getattr(step, name).dtype == np.int32, name


def check_moves(step: Step, session: FakeSession) -> None:
    """What `Step` promises of the blocks that move before the model runs."""
    for name, moves in (("out", step.swaps_out), ("in", step.swaps_in), ("copies", step.copies)):
        assert moves.dtype == np.int32, name
        assert moves.shape == (len(moves), 2), name
        assert len(np.unique(moves[:, 1])) == len(moves), name
    sources, targets = (set(step.copies[:, side].tolist()) for side in (0, 1))
    swapping_in = set(step.swaps_in[:, 1].tolist())
    assert not sources & targets
    assert not swapping_in & (sources | targets)
    assert not np.isin(step.swaps_out[:, 1], step.swaps_in[:, 0]).any()
    blocks = [*sources, *targets, *swapping_in, *step.swaps_out[:, 0].tolist()]
    host_blocks = [*step.swaps_out[:, 1].tolist(), *step.swaps_in[:, 0].tolist()]
    assert all(0 <= block < len(session.cache) for block in blocks)
    assert all(0 <= block < len(session.host_cache) for block in host_blocks)


def check_states(step: Step, session: FakeSession) -> None:
    """What `Step` promises of the recurrent states, which only some models keep."""
    assert len(np.unique(step.slots)) == step.num_seqs
    states = step.states
    assert (states is not None) == session.keeps_states
    if states is None:
        return
    assert states.table.dtype == states.interval.dtype == np.int32
    assert len(states.table) == len(states.interval) == step.num_seqs
    read, written = states.table[:, 0], written_states(step, states)
    assert ((read == NO_STATE) == (step.num_past == 0)).all()
    assert len(np.unique(written)) == len(written)
    assert not np.isin(read, written).any()
    assert ((written >= 0) & (written < len(session.states))).all()


def check_encoder_states(step: Step, session: FakeSession) -> None:
    """What `Step` promises of the frames of an encoder, which only some models attend to."""
    cross = step.cross
    assert (cross is not None) == (session.shape.encoder_hidden_size > 0)
    if cross is None:
        return
    assert cross.slots.dtype == cross.table.dtype == cross.lengths.dtype == np.int32
    assert cross.new_states.shape == (len(cross.slots), session.shape.encoder_hidden_size)
    assert (cross.lengths >= 1).all()
    assert (cross.lengths <= cross.table.shape[1] * session.shape.block_tokens).all()
    assert len(np.unique(cross.slots)) == len(cross.slots)
    written = set((cross.slots // session.shape.block_tokens).tolist())
    read = {
        block
        for blocks, num_frames in zip(cross.table, cross.lengths, strict=True)
        for block in blocks[: -(-num_frames // session.shape.block_tokens)].tolist()
    }
    assert written <= read
    assert not read & set(step.copies[:, 1].tolist())
    own = np.arange(step.block_table.shape[1]) < step.num_blocks[:, None]
    assert not read & set(step.block_table[own].tolist())


def written_states(step: Step, states: RecurrentStates) -> NDArray[np.int32]:
    columns = np.arange(states.table.shape[1] - 1)
    return states.table[:, 1:][columns < step.num_state_writes[:, None]]


def alone(
    prompt: list[int],
    params: SamplingParams,
    choice: int = 0,
    eos_token_ids: frozenset[int] = frozenset(),
    max_context: int = 200,
    frames: NDArray[np.float32] | None = None,
) -> Text:
    """What a prompt gives with no engine at all: hash the whole context, sample, append."""
    scores = scores_alone(prompt, params, frames)
    if params.max_tokens == 0:
        return Text(finish="length", prompt_logprobs=scores)
    params = dataclasses.replace(params, logprobs=None)
    plain = params.temperature == 0 and params.min_tokens == 0 and params.repetition_penalty == 1
    ends = set(params.stop_token_ids) | (set() if params.ignore_eos else eos_token_ids)
    rows = SamplingSlots(1, VOCAB_SIZE)
    rows.set(0, params, prompt, [], choice, sorted(ends))
    step, ids, text = lone_step(rows), list(prompt), Text(prompt_logprobs=scores)
    while text.finish is None:
        values = fake_logits([np.array(ids, np.int64)], VOCAB_SIZE, frames)
        token_id = int(values.argmax() if plain else sample(Logits(values, step)).token_ids[0])
        text.token_ids.append(token_id)
        if token_id in ends:
            text.finish = "stop"
            if params.ignore_eos or token_id not in eos_token_ids:
                text.stop_token_id = token_id
            break
        rows.append(0, token_id)
        ids.append(token_id)
        if len(text.token_ids) == params.max_tokens or len(ids) == max_context:
            text.finish = "length"
    return text


def scores_alone(
    prompt: list[int], params: SamplingParams, frames: NDArray[np.float32] | None = None
) -> list[TokenLogprobs] | None:
    """How likely each token of a prompt but the first is, each from all that stands before it."""
    k = params.prompt_logprobs
    if k is None:
        return None
    contexts = [np.array(prompt[:end], np.int64) for end in range(1, len(prompt))]
    if not contexts:
        return []
    rows, targets = np.arange(len(contexts)), np.array(prompt[1:], np.int64)
    gathered = numpy_ops.gather_logprobs(fake_logits(contexts, VOCAB_SIZE, frames), rows, targets, k)
    columns = (gathered.chosen, gathered.ranks, gathered.top_ids, gathered.top)
    return [TokenLogprobs(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def lone_step(rows: SamplingSlots) -> StepContext:
    """One logit for row 0; the rest of the step is never read by the sampler."""
    zero, unit = np.zeros(1, np.int32), np.ones(1, np.int32)
    step = Step(
        token_ids=np.zeros(1, np.int64),
        positions=np.zeros(1, np.int64),
        starts=np.array([0, 1], np.int32),
        num_past=zero,
        block_table=np.zeros((1, 1), np.int32),
        num_blocks=unit,
        max_context=1,
        logit_indices=np.zeros(1, np.int64),
        logit_slots=zero,
        copies=np.zeros((0, 2), np.int32),
    )
    return StepContext(step, rows)
