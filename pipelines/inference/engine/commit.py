"""Commits the result of a step to its sequences; before that, nothing of the step is visible."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from pipelines.inference.contracts.guide import GuideError
from pipelines.inference.contracts.routed_experts import UNKNOWN, ExpertRecord
from pipelines.inference.contracts.step import Sampled, Step
from pipelines.inference.engine.active_requests import ActiveRequests
from pipelines.inference.engine.append_token import append_token
from pipelines.inference.engine.beam.beam_search import grow_beams
from pipelines.inference.engine.interface.outputs import (
    Output,
    Piece,
    failed_output,
    piece_of,
    speculation_of,
)
from pipelines.inference.engine.scheduling.scheduler import StepScheduler
from pipelines.inference.engine.scheduling.step_plan import Plan
from pipelines.inference.engine.sequences.beam_group import Ending
from pipelines.inference.engine.sequences.sequence import NO_SLOT, Search, Sequence, Slice
from pipelines.inference.engine.speculation.accepted_runs import AcceptedRun, Chosen, first_ids, runs_of
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.token_piece import ExpertChoices, PieceLogprobs, TokenPiece


class Commit:
    """A fault in one sequence ends that sequence alone."""

    def __init__(
        self, scheduler: StepScheduler, active: ActiveRequests, routed: ExpertRecord | None = None
    ) -> None:
        self._scheduler, self._active, self._routed = scheduler, active, routed
        self._cache, self._slots = scheduler.cache, scheduler.tables.slots
        self._sampling, self._totals = scheduler.tables.sampling, scheduler.counts

    def step(self, plan: Plan, step: Step, sampled: Sampled) -> Iterator[Output]:
        """Record `step`, as the engine packed it, and what the body made of it."""
        self._totals.steps += 1
        self._totals.step_tokens += step.num_tokens
        self._totals.swapped_out_blocks += len(step.swaps_out)
        self._totals.swapped_in_blocks += len(step.swaps_in)
        self._slots.num_past[step.slots] = step.num_past + (step.starts[1:] - step.starts[:-1])
        self._slots.last_token[step.logit_slots] = first_ids(sampled)
        _add_scores(plan.scoring, sampled.scores)
        chosen = runs_of(sampled)
        for slice in plan.slices:
            sequence = slice.sequence
            if not slice.samples:
                yield from self._slice(slice, [])
            elif not sequence.followers:
                yield from self._slice(slice, [next(chosen)])
            else:
                yield from self._slice(slice, list(islice(chosen, len(sequence.group))))

    def _slice(self, slice: Slice, chosen: list[Chosen]) -> list[Output]:
        """One slice is computed; `chosen` are its group's next tokens, none in the middle of a prompt."""
        sequence = slice.sequence
        group = sequence.group if sequence.followers else [sequence]
        if sequence.slot == NO_SLOT:  # its search ended with an earlier slice
            return []
        if chosen and any(member.guide is not None and member.guide.late is not None for member in group):
            self._wait_for_mask(sequence, group)
            return []
        try:
            sequence.num_cached = slice.end
            self._cache.register(sequence)
            if chosen and sequence.followers:
                self._scheduler.fork(sequence)
            if chosen and sequence.search is not None:
                return self._search(sequence.search, sequence, chosen[0].logprobs)
        except Exception as error:
            return self._active.fail(group, error)
        outputs = [self._extend(member, *choice) for member, choice in zip(group, chosen, strict=False)]
        if slice.draft_budget and sequence.slot != NO_SLOT:
            self._close_run(sequence)
        return outputs

    def _wait_for_mask(self, sequence: Sequence, group: list[Sequence]) -> None:
        """What was chosen without a mask does not count: the step computes nothing of these sequences."""
        self._close_run(sequence)
        for member in group:
            self._slots.last_token[member.slot] = member.token_ids[-1]
        self._scheduler.late.append(sequence)

    def _search(self, search: Search, beam: Sequence, top: TokenLogprobs | None) -> list[Output]:
        """Record one beam's candidates; the last report lets all beams grow, or ends the search."""
        assert top is not None
        grown = search.report(beam, top)
        self._slots.last_token[beam.slot] = beam.token_ids[-1]
        if grown:
            grow_beams(search, grown, self._scheduler)
        if grown is None or grown:
            return []
        for member in reversed(search.beams):
            self._active.remove(member)
        endings = search.endings()
        self._totals.output_tokens += sum(len(ending.token_ids) for ending in endings)
        num_cached = beam.num_reused or 0
        return [Output(beam.key, ending.choice, _found(ending, num_cached)) for ending in endings]

    def _extend(
        self, sequence: Sequence, token_id: int, logprobs: TokenLogprobs | None, run: AcceptedRun | None
    ) -> Output:
        """One more token, and those of its run; or the end."""
        piece = None
        try:
            piece = self._append(sequence, token_id, logprobs)
            if run is not None:
                for more in self._follow(sequence, run):
                    piece.extend(more)
                self._count(sequence, piece, run)
            return Output(sequence.key, sequence.choice, piece)
        except GuideError as error:
            self._active.remove(sequence)
            ending = failed_output(sequence.key, sequence.choice, str(error), error.status)
        except Exception as error:
            [ending] = self._active.fail([sequence], error)
        if piece is None:
            return ending
        piece.extend(ending.piece)
        return ending._replace(piece=piece)

    def _append(self, sequence: Sequence, token_id: int, logprobs: TokenLogprobs | None) -> Piece:
        length, most = len(sequence.token_ids), sequence.request.max_length
        if length >= most:  # max_tokens is 0: only the prompt is computed
            experts = self._experts(sequence, length)
            self._active.remove(sequence)
            return piece_of(sequence, [], [], "length", experts=experts)
        taken, finish, stop_token_id = append_token(sequence, self._sampling, token_id)
        experts = self._experts(sequence, length + len(taken) - 1 if finish else sequence.num_cached)
        self._totals.output_tokens += len(taken)
        if finish:
            self._cache.register(sequence)  # what accepted draft tokens have filled
            self._active.remove(sequence)
        elif len(taken) > 1:
            self._slots.last_token[sequence.slot] = taken[-1]
        logprobs_of_token = [] if logprobs is None else [logprobs]
        return piece_of(sequence, taken, logprobs_of_token, finish, stop_token_id, experts)

    def _experts(self, sequence: Sequence, end: int) -> ExpertChoices | None:
        """The choices of the tokens up to `end` that were not returned yet, while the blocks are there.

        None where they are not wanted.  A guide may end a sequence with tokens that are not computed.
        """
        routed, wanted = self._routed, sequence.request.params.return_routed_experts
        if routed is None or not (routed.are_returned if wanted is None else wanted):
            return None
        begin = max(sequence.num_routed, sequence.request.params.routed_experts_prompt_start)
        sequence.num_routed = end
        rows = routed.of(sequence.blocks, begin, min(end, sequence.num_cached))
        missing = np.full((end - begin - len(rows), *rows.shape[1:]), UNKNOWN, np.int16)
        shape = routed.shape
        return ExpertChoices(shape.layers, shape.used, [rows.tobytes() + missing.tobytes()])

    def _follow(self, sequence: Sequence, run: AcceptedRun) -> Iterator[Piece]:
        """The tokens after the first of a run, as far as they are valid.

        Each accepted draft token is in the cache. Where the guide has forced tokens meanwhile, those count,
        and a run that differs from them ends.
        """
        for token_id, logprobs in run.later:
            if sequence.slot == NO_SLOT:
                return
            sequence.num_cached += 1
            if sequence.num_pending == 0:
                yield self._append(sequence, token_id, logprobs)
            elif sequence.token_ids[sequence.num_cached] != token_id:
                return

    def _count(self, sequence: Sequence, piece: Piece, run: AcceptedRun) -> None:
        """Count the draft tokens of a run; those that the end of the sequence cut off were not accepted."""
        num_accepted = min(len(run.later), len(piece.token_ids))
        sequence.num_drafted += run.num_drafted
        sequence.num_accepted += num_accepted
        self._totals.count_run(run.num_drafted, num_accepted)
        piece.speculation = speculation_of(sequence)
        if run.draft_logprobs and num_accepted:
            piece.logprobs = piece.logprobs or PieceLogprobs()
            piece.logprobs.drafted = [*run.draft_logprobs[:num_accepted]]

    def _close_run(self, sequence: Sequence) -> None:
        """Set the slot and the blocks of a sequence to its accepted tokens."""
        self._slots.num_past[sequence.slot] = sequence.num_cached
        self._slots.last_token[sequence.slot] = sequence.token_ids[-1]
        self._cache.register(sequence)
        self._cache.trim(sequence)


def _add_scores(slices: list[Slice], scores: list[TokenLogprobs]) -> None:
    """Add the scores of a step to their prompts: in the order of the slices that are scored."""
    found = iter(scores)
    for slice in slices:
        prompt = slice.sequence.scores
        assert prompt is not None
        prompt.found += islice(found, len(slice.scored))


def _found(ending: Ending, num_cached: int) -> Piece:
    """The whole output of one choice of a beam search."""
    token_ids, logprobs = ending.token_ids, ending.logprobs
    return TokenPiece(
        token_ids,
        len(token_ids),
        ending.finish,
        ending.stop_token_id,
        num_cached=num_cached,
        logprobs=PieceLogprobs(logprobs) if logprobs else None,
    )
