"""Keeps outputs to what they may be: masks of the next tokens, filled while the model runs.

Knows guides and steps; knows nothing of what a guide follows.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from graphs.node import FilePath, Node, NodeConfig, Place
from pipelines.engine.feed import Logits, Masks, Step
from pipelines.errors import RequestError
from pipelines.sampling.guide import Guide, GuideMaker

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipelines.guides.makers import GuideMakers
    from pipelines.sampling.params import SamplingParams

log = logging.getLogger(__name__)

MAX_THREADS = 8


class Grammar(Node):
    """Grammars and bounds on reasoning, applied by the sampler after everything else.

    Between `begin` and `run` of one step its threads read guides; nobody else may then.
    """

    place: ClassVar[Place] = "step"

    class Config(NodeConfig):
        tokenizer: FilePath

    def start(self, vocab_size: int, end_ids: Collection[int]) -> None:
        """Called once, when the model is known.  A tokenizer that cannot be constrained fails requests."""
        from pipelines.guides.makers import GuideMakers
        from pipelines.guides.tokens import TokenTable

        self._makers: GuideMakers | None = None
        self._fault = ""
        try:
            tokens = TokenTable(self.folder / self.config.tokenizer, vocab_size, end_ids)
            self._makers = GuideMakers(tokens)
        except ValueError as error:
            self._fault = str(error)
            log.warning("%s: %s", self.config.tokenizer, error)
        self._num_threads = max(1, min(MAX_THREADS, (os.cpu_count() or 2) - 1))
        self._threads = ThreadPoolExecutor(self._num_threads, "masks")
        self._filling: list[Future[None]] = []
        self._masks: Masks | None = None

    def maker(self, params: SamplingParams) -> GuideMaker | None:
        """In any thread.  None where nothing is restricted; raises RequestError for what does not compile."""
        spec = params.guide
        if spec is None or (spec.grammar is None and spec.thinking is None):
            return None
        if self._makers is None:
            raise RequestError(f"this model's output cannot be kept to a grammar: {self._fault}")
        return self._makers.maker(spec, params)

    def begin(self, step: Step) -> None:
        """Start to fill the masks of the rows that are restricted."""
        wait(self._filling)  # a step that failed may have left some
        self._filling, self._masks = [], None
        guides = step.sampling.guides
        rows = np.flatnonzero(step.sampling.guided[step.logits_rows])
        found = [(j, guide) for j in rows.tolist() if (guide := guides[step.logits_rows[j]]).restricts()]
        if not found:
            return
        bits = np.empty((len(found), -(-step.sampling.vocab_size // 32)), np.int32)
        self._masks = Masks(np.array([j for j, _ in found], np.int64), bits.view(np.uint32))
        asked = [guide for _, guide in found]
        share = -(-len(asked) // self._num_threads)
        self._filling = [
            self._threads.submit(_fill, asked[first : first + share], bits[first : first + share])
            for first in range(0, len(asked), share)
        ]

    def run(self, logits: Logits) -> Logits:
        for filling in self._filling:
            filling.result()
        self._filling, masks = [], self._masks
        return logits if masks is None else replace(logits, masks=masks)

    def close(self) -> None:
        if hasattr(self, "_threads"):
            self._threads.shutdown()


def _fill(guides: list[Guide], bits: NDArray[np.int32]) -> None:
    for guide, row in zip(guides, bits, strict=True):
        guide.fill(row)
