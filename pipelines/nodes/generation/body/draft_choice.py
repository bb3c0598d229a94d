"""Chooses draft tokens from the draft model's logits, as the target would choose from equal logits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.contract import SamplingOps
from pipelines.inference.sampling.logprob_reports import gather
from pipelines.inference.sampling.step_context import StepContext
from pipelines.wire.logprobs import TokenLogprobs


class DraftTokens:
    """The draft tokens for one step: of sequence i the first `counts[i]` of row i.

    A draft token is drawn with the random number and the parameters of the target's own token: so two models
    with equal distributions choose equal tokens.
    """

    def __init__(self, context: StepContext, vocab_size: int, ops: SamplingOps) -> None:
        assert context.speculation is not None
        self._step, self._sampling, self._ops = context.step, context.sampling, ops
        self._speculation = context.speculation
        self._vocab_size = vocab_size
        self._found: list[list[int]] = [[] for _ in range(context.step.num_seqs)]
        self._logprobs: list[list[TokenLogprobs | None]] = [[] for _ in range(context.step.num_seqs)]

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.array([len(ids) for ids in self._found], np.int64)

    @property
    def ids(self) -> NDArray[np.int64]:
        """The draft tokens of all sequences, one after another: int64[sum(counts)]."""
        return np.array([one for ids in self._found for one in ids], np.int64)

    @property
    def logprobs(self) -> list[TokenLogprobs | None] | None:
        """One for each of `ids`; None where no request wants them."""
        if not self._speculation.wants_logprobs[self._step.slots].any():
            return None
        return [one for given in self._logprobs for one in given]

    def of(self, seq: int) -> list[int]:
        return self._found[seq]

    def choose(
        self, values: Any, seqs: NDArray[np.int64], ahead: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draft the next token of `seqs`, after `ahead` draft tokens: the ids, and the sequences that
        continue.

        values: the draft's logits, float32[len(seqs), vocab_size]. A sequence stops at a draft token outside
        the target's vocabulary, or whose probability is below the request's threshold.
        """
        sampling, at = self._sampling, self._step.slots[seqs]
        values = self._ops.writable(values)
        counters = (sampling.num_outputs[at] + ahead).astype(np.uint64)
        ids = self._ops.choose(values, sampling.draws.rows(at, counters))
        continues = (ids < self._vocab_size) & self._sure(values, ids, at)
        logprobs = self._report(values, ids, at)
        for j, seq in enumerate(seqs.tolist()):
            if continues[j]:
                self._found[seq].append(int(ids[j]))
                self._logprobs[seq].append(logprobs.get(j))
        return ids[continues], seqs[continues]

    def _sure(self, values: Any, ids: NDArray[np.int64], at: NDArray[np.int32]) -> NDArray[np.bool_]:
        threshold = self._speculation.threshold[at]
        sure = np.ones(len(ids), np.bool_)
        asking = np.flatnonzero(threshold > 0)
        if len(asking):
            logprobs = self._ops.logprobs_of(values, asking, ids[asking])
            sure[asking] = np.exp(logprobs) >= threshold[asking]
        return sure

    def _report(self, values: Any, ids: NDArray[np.int64], at: NDArray[np.int32]) -> dict[int, TokenLogprobs]:
        """The draft's log-probabilities of its tokens, by place, for the requests that want them."""
        asking = np.flatnonzero(self._speculation.wants_logprobs[at])
        if not len(asking):
            return {}
        tops = np.clip(self._sampling.num_logprobs[at[asking]], 0, self._vocab_size)
        return dict(zip(asking.tolist(), gather(self._ops, values, asking, ids[asking], tops), strict=True))
