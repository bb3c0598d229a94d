"""The draft node: a smaller model, over the same block table, proposes the next tokens of its target.

Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding", 2023; here a draft
token is accepted when it equals the target's own choice.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pipelines.inference.backends.open_model import log_opened_model, open_decoder
from pipelines.inference.contracts.decoder_contract import DecoderSession
from pipelines.inference.contracts.step import Step
from pipelines.inference.engine.speculation.draft_cache import DraftCacheState, DraftInput, draft_step
from pipelines.inference.engine.speculation.speculation_slots import SpeculationSlots
from pipelines.inference.engine.speculation.speculative_steps import with_draft_tokens
from pipelines.inference.engine.speculation.step_cost import StepCost
from pipelines.inference.sampling.step_context import StepContext
from pipelines.nodes.generation.body.draft_choice import DraftTokens
from pipelines.nodes.generation.body.draft_policy import DraftPolicy
from pipelines.nodes.generation.body.model import DecoderConfig
from pipelines.nodes.generation.body.speculator import ADAPTIVE, RENAMED, Speculator
from pipelines.nodes.interface import Loading
from pipelines.wire.sampling_params import MAX_DRAFT_TOKENS

PADDING = 1024
"""Vocabularies of one tokenizer are padded to different multiples; they differ by less than this."""


class Draft(Speculator):
    """Proposes draft tokens with a second, smaller model; pauses where that does not pay off.

    The draft's tokens and its cache change how many draft tokens are accepted, never the text. While paused
    it computes nothing; missing tokens are computed when it continues.
    """

    session: DecoderSession

    class Config(DecoderConfig):
        renamed = RENAMED

        num_draft_tokens: int = Field(
            default=4, ge=1, le=MAX_DRAFT_TOKENS, description="most draft tokens in a step"
        )
        adaptive: bool = ADAPTIVE

    def load(self, resources: Loading) -> None:
        path = self.folder / self.config.path
        settings = self.config.settings(resources.device, resources.prepared)
        self.use_session(open_decoder(path, settings))  # never shared: its cache is its own
        self.opened = log_opened_model(path, self.session.describe())

    def use_session(self, session: DecoderSession) -> None:
        self.session = session
        self._drafted = DraftCacheState(session.shape.block_tokens)
        self._cost = StepCost()
        self._policy = DraftPolicy(self.num_draft_tokens, self.config.adaptive, self._cost)
        self._largest = 0

    def run(self, step: StepContext) -> StepContext:
        return self._speculate(step)

    def _speculate(self, context: StepContext) -> StepContext:
        began = perf_counter()
        step, speculation = context.step, context.speculation
        self._drafted.start_step(step)
        self._largest = max(self._largest, step.num_tokens)
        if speculation is None or step.draft is not None or step.draft_budget is None:
            self._drafted.leave_out(step)
            return context
        speculation.is_asked_always = True
        computed = self._drafted.computed(step)
        counts = self._policy.counts(step, speculation, computed, self._longest(step))
        draft_input = self._input(step, speculation, computed, counts)
        if not len(draft_input.seqs):
            self._drafted.leave_out(step)
            return context
        draft_tokens = self._draft(context, draft_input, counts)
        self._policy.record_drafts(step, speculation, draft_tokens)
        speculation.cost.exclude(perf_counter() - began)
        return context.with_step(
            with_draft_tokens(step, draft_tokens.counts, draft_tokens.ids, draft_tokens.logprobs)
        )

    def seed_cost(self) -> None:
        """Seed the cost of the draft's own steps; they are known once it is warm."""
        self._cost.seed_cost(self.session.step_times_s)

    def close(self) -> None:
        self.session.close()

    def _longest(self, step: Step) -> NDArray[np.int32]:
        """How many draft tokens the draft's own context allows each sequence: int32[num_seqs]."""
        return np.asarray(
            np.clip(self.session.shape.max_context - step.num_past, 0, self.num_draft_tokens), np.int32
        )

    def _input(
        self,
        step: Step,
        speculation: SpeculationSlots,
        computed: NDArray[np.int32],
        counts: NDArray[np.int64],
    ) -> DraftInput:
        """The tokens that the draft lacks of drafting sequences, and of prompts that are to be drafted for.

        Never more tokens than a step had, for which the session is prepared. A sequence that exceeds this
        waits: its entry of `counts` becomes 0.
        """
        token_ids, slots = speculation.token_ids, step.slots.tolist()
        ends = step.num_past + np.diff(step.starts)
        speculators = np.flatnonzero(counts)
        wanted = speculators[np.argsort(ends[speculators] - computed[speculators], kind="stable")]
        prompts = np.flatnonzero((np.diff(step.starts) > 1) & (ends <= self.session.shape.max_context))
        if len(prompts) and self._policy.wants_prompts(step, speculation):
            known = [seq for seq in prompts.tolist() if len(token_ids[slots[seq]]) >= ends[seq]]
            wanted = np.concatenate([wanted, np.array(known, np.int64)])
        lacking = ends[wanted] - computed[wanted]
        left = np.maximum(self._largest - (np.cumsum(lacking) - lacking), 0)
        taken = np.minimum(lacking, left)
        counts[wanted[taken < lacking]] = 0
        wanted, taken = wanted[taken > 0], taken[taken > 0]
        tokens = [
            token_ids[slots[seq]][begin : begin + count]
            for seq, begin, count in zip(
                wanted.tolist(), computed[wanted].tolist(), taken.tolist(), strict=True
            )
        ]
        ids = np.array([token for some in tokens for token in some], np.int64)
        return DraftInput(wanted, computed[wanted], taken.astype(np.int32), ids, counts[wanted] > 0)

    def _draft(self, context: StepContext, draft_input: DraftInput, counts: NDArray[np.int64]) -> DraftTokens:
        """Run the draft once for each draft position, over the sequences that want one more token."""
        step = context.step
        vocab_size = min(self.session.shape.vocab_size, context.sampling.vocab_size)
        draft_tokens = DraftTokens(context, vocab_size, self.session.ops)
        values, seconds = self._run(step, draft_input, moves=True)
        seqs = draft_input.seqs[draft_input.asks]
        for ahead in range(int(counts.max(initial=0))):
            began = perf_counter()
            ids, seqs = draft_tokens.choose(values, seqs, ahead)
            self._cost.learn(len(draft_input.token_ids), seconds + perf_counter() - began)
            more = counts[seqs] > ahead + 1
            if not more.any():
                break
            seqs, ids = seqs[more], ids[more]
            past = step.num_past[seqs] + np.int32(ahead + 1)
            draft_input = DraftInput(
                seqs, past, np.ones(len(seqs), np.int32), ids, np.ones(len(seqs), np.bool_)
            )
            values, seconds = self._run(step, draft_input, moves=False)
        return draft_tokens

    def _run(self, step: Step, draft_input: DraftInput, moves: bool) -> tuple[Any, float]:
        began = perf_counter()
        np.minimum(draft_input.token_ids, self.session.shape.vocab_size - 1, out=draft_input.token_ids)
        run = draft_step(step, draft_input, self.session.shape.block_tokens, moves)
        values = self.session.run(run)
        self._drafted.write(run)
        return values, perf_counter() - began


def check_draft(draft: DecoderSession, target: DecoderSession) -> None:
    """Raise ValueError where a draft cannot share the blocks of its target, or has another vocabulary."""
    own, other = draft.shape, target.shape
    if own.state_bytes:
        raise ValueError(
            "the draft keeps recurrent states, which cannot follow the blocks of its target: take a draft of "
            "attention alone, or a `lookup` line"
        )
    if own.block_tokens != other.block_tokens:
        raise ValueError(
            f"the draft's blocks hold {own.block_tokens} tokens, the model's {other.block_tokens}; "
            "they must be equal: give both the same engine, device and kv_cache"
        )
    if abs(own.vocab_size - other.vocab_size) >= PADDING:
        raise ValueError(
            f"the draft has {own.vocab_size} tokens, the model {other.vocab_size}:  "
            "a draft needs a model of the same tokenizer"
        )
