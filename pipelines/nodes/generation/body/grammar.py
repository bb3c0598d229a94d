"""The grammar node: masks of the allowed tokens, filled while the model runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig, Place
from ops.draft_verification import NO_DRAFT_TOKEN
from pipelines.base.errors import RequestError
from pipelines.inference.contracts.guide import GuideMaker
from pipelines.inference.guides.draft_masks import DraftRun
from pipelines.inference.guides.mask_jobs import MaskJob, MaskThreads
from pipelines.inference.sampling.step_context import Logits, Masks, StepContext

if TYPE_CHECKING:
    from pipelines.inference.guides.guide_compiler import GuideCompiler
    from pipelines.wire.sampling_params import SamplingParams

log = logging.getLogger(__name__)

MAX_THREADS = 8
SLOW_THREADS = 2
"""For masks that may take longer than a step: no others wait for them."""


class Grammar(Node):
    """Masks the tokens that a request's grammar or thinking budget forbids; the sampler applies the masks
    last.

    Between `prepare` and `run` of one step its threads read guides, and those that are `late` longer; no
    other thread may then.
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
        self._threads = MaskThreads(max(1, min(MAX_THREADS, (os.cpu_count() or 2) - 1)), "masks")
        self._slow_threads = MaskThreads(SLOW_THREADS, "slow-masks")
        self._jobs: list[tuple[MaskThreads, MaskJob]] = []
        self._late: list[DraftRun] = []
        self._rows: list[int] = []

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
        from pipelines.inference.guides.guide_compiler import GuideCompiler
        from pipelines.inference.guides.token_tables import TokenTable

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
        self._jobs, self._late, self._rows = [], [], []
        fast, slow = [], []
        for run in _runs(context):
            if run.guide.late is not None:
                self._late.append(run)
            elif run.guide.is_slow:
                slow.append(run)
            else:
                fast.append(run)
        if fast or slow or self._late:
            runs = fast + slow + self._late
            self._rows = [row for run in runs for row in run.rows]
            self._bits = np.empty((len(self._rows), -(-context.sampling.vocab_size // 32)), np.int32)
            self._start(self._slow_threads, slow, self._start(self._threads, fast, 0))

    def _start(self, threads: MaskThreads, runs: list[DraftRun], first: int) -> int:
        """Share runs among threads; their rows begin at `first`.  Returns where they end."""
        share = -(-len(runs) // threads.num)
        for share_of in (runs[at : at + share] for at in range(0, len(runs), share or 1)):
            end = first + sum(len(run.rows) for run in share_of)
            self._jobs.append((threads, threads.submit(share_of, self._bits[first:end])))
            first = end
        return first

    def run(self, logits: Logits) -> Logits:
        filled = [row for threads, job in self._jobs for row in threads.filled(job)]
        for run in self._late:
            filled += self._take_late(run, self._bits[len(filled) :])
        if not any(filled):
            return logits
        rows, bits = np.array(self._rows, np.int64), self._bits.view(np.uint32)
        if not all(filled):
            rows, bits = rows[filled], bits[filled]
        return replace(logits, masks=Masks(rows, bits))

    def _take_late(self, run: DraftRun, bits: Any) -> list[bool]:
        """The mask that an earlier step did not get, if it is ready; draft tokens after it do not count."""
        late, filled = run.guide.late, [False] * len(run.rows)
        if late is not None and late.is_ready:
            run.guide.late = None
            filled[0] = late.copy_to(bits[0])
        return filled

    def close(self) -> None:
        if hasattr(self, "_threads"):
            self._threads.close()
            self._slow_threads.close()


def _runs(context: StepContext) -> list[DraftRun]:
    """The runs with guides, ascending; without draft tokens only where something is restricted."""
    step, sampling = context.step, context.sampling
    guides, at = sampling.guides, step.logit_slots.tolist()
    guided = [row for row, slot in enumerate(at) if guides[slot] is not None]
    if not guided:
        return []
    rows = np.array(guided)
    draft_tokens: list[list[int]] = [[]] * len(rows)
    if step.draft is not None:
        drafted = step.draft.token_ids
        rows = rows[step.draft.offsets[rows] == 0]
        ends = np.flatnonzero(drafted == NO_DRAFT_TOKEN)
        lasts = ends[np.searchsorted(ends, rows)].tolist()
        draft_tokens = [drafted[j:last].tolist() for j, last in zip(rows.tolist(), lasts, strict=True)]
    drafts = [(guides[at[j]], j, ids) for j, ids in zip(rows.tolist(), draft_tokens, strict=True)]
    runs = [DraftRun(guide, j, ids) for guide, j, ids in drafts if guide is not None]
    return [run for run in runs if run.draft_tokens or run.guide.restricts()]
