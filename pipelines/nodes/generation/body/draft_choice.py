"""Which token a draft draft tokens: the one that its target would choose if it thought the same.

Knows rows of logits and sampling rows; knows nothing of models or caches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.contract import SamplingOps
from pipelines.host.engine.step_context import StepContext
from pipelines.host.sampling.logprob_reports import gather
from pipelines.wire.logprobs import TokenLogprobs


class DraftTokens:
    """The draft tokens for one step: of sequence i the first `counts[i]` of row i.

    A draft token is drawn with the random number and the parameters with which the target will draw its own
    token: so two models that agree on the distribution agree on the token, too.
    """

    def __init__(self, context: StepContext, vocab_size: int, ops: SamplingOps) -> None:
        assert context.speculation is not None
        self._step, self._sampling, self._ops = context.step, context.sampling, ops
        self._speculation = context.speculation
        self._vocab_size = vocab_size
        self._found: list[list[int]] = [[] for _ in range(context.step.num_seqs)]
        self._told: list[list[TokenLogprobs | None]] = [[] for _ in range(context.step.num_seqs)]

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.array([len(ids) for ids in self._found], np.int64)

    @property
    def ids(self) -> NDArray[np.int64]:
        """Of all sequences, one after another: int64[sum(counts)]."""
        return np.array([one for ids in self._found for one in ids], np.int64)

    @property
    def logprobs(self) -> list[TokenLogprobs | None] | None:
        """One for each of `ids`; None where no row asks."""
        if not self._speculation.wants_logprobs[self._step.slots].any():
            return None
        return [one for told in self._told for one in told]

    def of(self, seq: int) -> list[int]:
        return self._found[seq]

    def choose(
        self, values: Any, seqs: NDArray[np.int64], ahead: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draft token the next token of `seqs`, `ahead` draft tokens behind their own: the ids, and whose
        were taken.

        values: the draft's logits, float32[len(seqs), vocab].  A row ends with a draft token that the target
        does not know, or that the draft itself thinks less likely than the row's threshold.
        """
        sampling, at = self._sampling, self._step.slots[seqs]
        values = self._ops.writable(values)
        ids = self._ops.choose(
            values,
            sampling.temperature[at],
            sampling.min_p[at],
            sampling.top_k[at],
            sampling.top_p[at],
            sampling.keys[at],
            (sampling.num_outputs[at] + ahead).astype(np.uint64),
        )
        kept = (ids < self._vocab_size) & self._sure(values, ids, at)
        told = self._tell(values, ids, at)
        for j, seq in enumerate(seqs.tolist()):
            if kept[j]:
                self._found[seq].append(int(ids[j]))
                self._told[seq].append(told.get(j))
        return ids[kept], seqs[kept]

    def _sure(self, values: Any, ids: NDArray[np.int64], at: NDArray[np.int32]) -> NDArray[np.bool_]:
        threshold = self._speculation.threshold[at]
        sure = np.ones(len(ids), np.bool_)
        asking = np.flatnonzero(threshold > 0)
        if len(asking):
            logprobs = self._ops.logprobs_of(values, asking, ids[asking])
            sure[asking] = np.exp(logprobs) >= threshold[asking]
        return sure

    def _tell(self, values: Any, ids: NDArray[np.int64], at: NDArray[np.int32]) -> dict[int, TokenLogprobs]:
        """What the draft thinks of its draft tokens, by place, for the rows that want to know."""
        asking = np.flatnonzero(self._speculation.wants_logprobs[at])
        if not len(asking):
            return {}
        tops = np.clip(self._sampling.num_logprobs[at[asking]], 0, self._vocab_size)
        return dict(zip(asking.tolist(), gather(self._ops, values, asking, ids[asking], tops), strict=True))
