"""The grammar node: masks of the allowed tokens, filled while the model runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig, Place
from ops.draft_verification import NO_DRAFT_TOKEN
from pipelines.errors import RequestError
from pipelines.host.engine.step_context import Logits, Masks, StepContext
from pipelines.host.guides.draft_masks import DraftRun, fill_draft_masks
from pipelines.host.sampling.guide import GuideMaker

if TYPE_CHECKING:
    from pipelines.host.guides.guide_compiler import GuideCompiler
    from pipelines.wire.sampling_params import SamplingParams

log = logging.getLogger(__name__)

MAX_THREADS = 8


class Grammar(Node):
    """Masks the tokens that a request's grammar or thinking budget forbids; the sampler applies the masks
    last.

    Between `prepare` and `run` of one step its threads read guides; no other thread may then.
    """

    place: ClassVar[Place] = "step"

    class Config(NodeConfig):
        tokenizer: FilePath = Field(description="a tokenizer.json")

    def start(self, vocab_size: int, end_ids: Collection[int]) -> None:
        """Called once, when the model is known.

        The tokens' table is large, so the first request that is restricted makes it, from what the file is
        now.  A tokenizer that cannot be constrained fails such requests.
        """
        self._text = (self.folder / self.config.tokenizer).read_bytes()
        self._vocab_size, self._end_ids = vocab_size, end_ids
        self._makers: GuideCompiler | None = None
        self._fault = ""
        self._making = Lock()
        self._num_threads = max(1, min(MAX_THREADS, (os.cpu_count() or 2) - 1))
        self._threads = ThreadPoolExecutor(self._num_threads, "masks")
        self._filling: list[Future[list[bool]]] = []
        self._masks: Masks | None = None

    def maker(self, params: SamplingParams) -> GuideMaker | None:
        """In any thread.  None where nothing is restricted; raises RequestError for what does not compile."""
        spec = params.guide
        if spec is None or (spec.grammar is None and spec.thinking is None and spec.calls is None):
            return None
        makers = self._compiler()
        if makers is not None:
            return makers.maker(spec, params)
        if not spec.demanded:
            return None
        raise RequestError(f"this model's output cannot be restricted to a grammar:  {self._fault}")

    def _compiler(self) -> GuideCompiler | None:
        """Makes the table once; None where it cannot be made, for which `_fault` has the reason."""
        from pipelines.host.guides.guide_compiler import GuideCompiler
        from pipelines.host.guides.token_tables import TokenTable

        with self._making:
            if self._makers is None and not self._fault:
                try:
                    self._makers = GuideCompiler(TokenTable(self._text, self._vocab_size, self._end_ids))
                except ValueError as error:
                    self._fault = str(error)
                    log.warning("%s: %s", self.config.tokenizer, error)
                self._text = b""
            return self._makers

    def prepare(self, context: StepContext) -> None:
        """Start to fill the masks of the rows that are restricted; `context` is the one that the model
        gets.
        """
        if self._filling:  # a step that failed has left some
            wait(self._filling)
        self._filling, self._masks = [], None
        runs = _runs(context)
        if not runs:
            return
        rows = [row for run in runs for row in run.rows]
        bits = np.empty((len(rows), -(-context.sampling.vocab_size // 32)), np.int32)
        self._masks = Masks(np.array(rows, np.int64), bits.view(np.uint32))
        share, first = -(-len(runs) // self._num_threads), 0
        for share_of in (runs[at : at + share] for at in range(0, len(runs), share)):
            end = first + sum(len(run.rows) for run in share_of)
            self._filling.append(self._threads.submit(fill_draft_masks, share_of, bits[first:end]))
            first = end

    def run(self, logits: Logits) -> Logits:
        filled = [row for filling in self._filling for row in filling.result()]
        self._filling, masks = [], self._masks
        if masks is None or not any(filled):
            return logits
        if not all(filled):
            masks = Masks(masks.rows[filled], masks.bits[filled])
        return replace(logits, masks=masks)

    def close(self) -> None:
        if hasattr(self, "_threads"):
            self._threads.shutdown()


def _runs(context: StepContext) -> list[DraftRun]:
    """Those with guides, ascending; without draft tokens only where something is restricted."""
    step, sampling = context.step, context.sampling
    guides, at = sampling.guides, step.logit_slots.tolist()
    guided = [row for row, slot in enumerate(at) if guides[slot] is not None]
    if not guided:
        return []
    rows = np.array(guided)
    draft_tokens: list[list[int]] = [[]] * len(rows)
    if step.draft_tokens is not None and step.draft_offset is not None:
        rows = rows[step.draft_offset[rows] == 0]
        ends = np.flatnonzero(step.draft_tokens == NO_DRAFT_TOKEN)
        lasts = ends[np.searchsorted(ends, rows)].tolist()
        draft_tokens = [
            step.draft_tokens[j:last].tolist() for j, last in zip(rows.tolist(), lasts, strict=True)
        ]
    found = [(guides[at[j]], j, ids) for j, ids in zip(rows.tolist(), draft_tokens, strict=True)]
    runs = [DraftRun(guide, j, ids) for guide, j, ids in found if guide is not None]
    return [run for run in runs if run.draft_tokens or run.guide.restricts()]
