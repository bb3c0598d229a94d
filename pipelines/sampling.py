"""What a client may ask of sampling, and the STAGES that honour it, in the order they apply.

Knows rows of logits; knows nothing of text, HTTP or the model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ops.logprobs import gather_logprobs
from ops.masking import add_bias, allow_only, ban
from ops.penalties import penalise_presence_and_frequency, penalise_repetition
from ops.random import uniforms
from ops.sampling import draw, draw_filtered, greedy
from pipelines.engine.feed import Logits, Sampled, TokenLogprobs
from pipelines.errors import RequestError


class SamplingParams(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Per-request sampling parameters; each default is the neutral value, which costs nothing.

    Ranges are checked once, where the request enters (`pipelines/tasks.py`); here they are facts.
    """

    max_tokens: int = 16
    min_tokens: int = 0
    temperature: float = 1.0  # 0 is greedy
    top_k: int = 0  # 0 is off
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0  # over prompt and output
    presence_penalty: float = 0.0  # over output
    frequency_penalty: float = 0.0  # over output
    logit_bias: dict[int, float] = {}
    allowed_token_ids: list[int] | None = None
    bad_words_ids: list[list[int]] = []  # each a sequence of token ids that must not be completed
    stop_token_ids: list[int] = []  # end the sequence, as the model's own end tokens do
    ignore_eos: bool = False
    seed: int = 0  # 64 bits; drawn at random by the worker when the request names none
    logprobs: int | None = None  # None: none; k: the chosen token's and the k likeliest alternatives'


class SamplingRows:
    """Parameters and state of the sequences that hold the rows of a step, kept from step to step.

    Arrays are indexed by row; a row that no sequence holds is greedy and has no edits.
    `num_outputs[row]` counts the output tokens so far: with the row's key it is all that a random number
    depends on, so a sequence draws the same tokens in any batch, in any row, and after a preemption.
    `edits[row]` is None, or what changes single logits of the row before a token is chosen.
    Owned by the thread that runs the engine.
    """

    def __init__(self, num_rows: int, vocab_size: int) -> None:
        self.num_rows = num_rows
        self.vocab_size = vocab_size
        self.temperature = np.zeros(num_rows, np.float32)
        self.min_p = np.zeros(num_rows, np.float32)
        self.top_k = np.full(num_rows, vocab_size, np.int64)
        self.top_p = np.ones(num_rows, np.float32)
        self.keys = np.zeros(num_rows, np.uint64)
        self.num_outputs = np.zeros(num_rows, np.int64)
        self.num_logprobs = np.full(num_rows, -1, np.int64)  # -1: none
        self.edits: list[RowEdits | None] = [None] * num_rows
        self.edited = np.zeros(num_rows, np.bool_)

    def set(
        self,
        row: int,
        params: SamplingParams,
        prompt_ids: Sequence[int],
        output_ids: Sequence[int],
        choice: int,
        end_token_ids: Sequence[int],
    ) -> None:
        """Give the row to a sequence; after a preemption again, with the output so far.

        Ids must lie in the vocabulary (`check_ids`).  `end_token_ids` are impossible before `min_tokens`.
        """
        self.temperature[row] = params.temperature
        self.min_p[row] = params.min_p
        self.top_k[row] = params.top_k if 0 < params.top_k < self.vocab_size else self.vocab_size
        self.top_p[row] = params.top_p
        self.keys[row] = random_key(params.seed, choice)
        self.num_outputs[row] = len(output_ids)
        self.num_logprobs[row] = -1 if params.logprobs is None else min(params.logprobs, self.vocab_size)
        self.edited[row] = has_edits(params)
        self.edits[row] = RowEdits(params, prompt_ids, output_ids, end_token_ids) if self.edited[row] else None

    def append(self, row: int, token_id: int) -> None:
        """An output token of the row's sequence was committed."""
        self.num_outputs[row] += 1
        edits = self.edits[row]
        if edits is not None:
            edits.append(token_id)

    def clear(self, row: int) -> None:
        """No sequence holds the row any more."""
        self.set(row, NEUTRAL, (), (), 0, ())


class RowEdits:
    """What changes single logits of one row.  Arrays of ids are int64 and hold each id once.

    Memory is bounded by the vocabulary and by the longest bad word, whatever the output's length.
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt_ids: Sequence[int],
        output_ids: Sequence[int],
        end_token_ids: Sequence[int],
    ) -> None:
        self.params = params
        self.num_outputs = len(output_ids)
        self.allowed = None if params.allowed_token_ids is None else np.unique(_ids(params.allowed_token_ids))
        self.banned = _ids([word[0] for word in params.bad_words_ids if len(word) == 1])
        self.phrases = [word for word in params.bad_words_ids if len(word) > 1]
        self.tail = TokenTail(output_ids, max(map(len, self.phrases), default=1) - 1)
        self.end_token_ids = _ids(end_token_ids)
        self.bias_ids = _ids(list(params.logit_bias))
        self.bias = np.array(list(params.logit_bias.values()), np.float32)
        self.repeats = params.repetition_penalty != 1
        self.counts = params.presence_penalty != 0 or params.frequency_penalty != 0
        self.seen: SeenTokens | None = None
        if self.repeats or self.counts:
            self.seen = SeenTokens(prompt_ids if self.repeats else (), output_ids)

    def append(self, token_id: int) -> None:
        self.num_outputs += 1
        if self.phrases:
            self.tail.append(token_id)
        if self.seen is not None:
            self.seen.append(token_id)

    def bans(self) -> NDArray[np.int64]:
        """Ids that would complete a bad word now.  May repeat an id."""
        completed = [word[-1] for word in self.phrases if self.tail.ends_with(word[:-1])]
        return np.concatenate([self.banned, _ids(completed)]) if completed else self.banned


class TokenTail:
    """The last `length` output tokens."""

    def __init__(self, token_ids: Sequence[int], length: int) -> None:
        self.tokens = deque(token_ids[-length:] if length else (), maxlen=length)

    def append(self, token_id: int) -> None:
        self.tokens.append(token_id)

    def ends_with(self, token_ids: Sequence[int]) -> bool:
        missing = len(self.tokens) - len(token_ids)
        return missing >= 0 and all(self.tokens[missing + i] == token for i, token in enumerate(token_ids))


class SeenTokens:
    """The distinct tokens of a prompt and its output, and how often each stands in the output.

    The first `size` entries of `ids` (int64) and `counts` (float32) are valid; `place[ids[i]] == i`.
    """

    def __init__(self, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> None:
        self.ids = np.unique(_ids(prompt_ids))
        self.size = len(self.ids)
        self.counts = np.zeros(self.size, np.float32)
        self.place = dict(zip(self.ids.tolist(), range(self.size), strict=True))
        for token_id in output_ids:
            self.append(token_id)

    def append(self, token_id: int) -> None:
        at = self.place.setdefault(token_id, self.size)
        if at == self.size:
            self._grow()
            self.ids[at], self.counts[at] = token_id, 0
            self.size += 1
        self.counts[at] += 1

    def _grow(self) -> None:
        if self.size == len(self.ids):
            room = max(64, self.size // 2)
            self.ids = np.concatenate([self.ids, np.zeros(room, np.int64)])
            self.counts = np.concatenate([self.counts, np.zeros(room, np.float32)])


NEUTRAL = SamplingParams(temperature=0.0)
"""What a row holds when no sequence holds it."""


def has_edits(params: SamplingParams) -> bool:
    """Whether any stage may change this request's logits."""
    return bool(
        params.allowed_token_ids is not None
        or params.bad_words_ids
        or params.min_tokens > 0
        or params.logit_bias
        or params.repetition_penalty != 1
        or params.presence_penalty != 0
        or params.frequency_penalty != 0
    )


def random_key(seed: int, choice: int) -> np.uint64:
    """The key of a choice's random numbers: the seed itself for choice 0, else both mixed (SplitMix64)."""
    key = (seed + choice * 0x9E3779B97F4A7C15) % 2**64
    if choice:
        key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        key = (key ^ key >> 27) * 0x94D049BB133111EB % 2**64
        key ^= key >> 31
    return np.uint64(key)


def check_ids(params: SamplingParams, vocab_size: int) -> None:
    """Raises RequestError where a parameter names a token that the model does not have."""
    for field, ids in (
        ("logit_bias", list(params.logit_bias)),
        ("allowed_token_ids", params.allowed_token_ids or []),
        ("bad_words", [token for word in params.bad_words_ids for token in word]),
        ("stop_token_ids", params.stop_token_ids),
    ):
        outside = sorted({token for token in ids if not 0 <= token < vocab_size})
        if outside:
            message = f"token_id(s) {outside} in {field} contain out-of-vocab token ids. "
            raise RequestError(message + f"Vocabulary size: {vocab_size}", field=field)


Edited = list[tuple[int, RowEdits]]
"""Logit rows and the edits of the persistent rows they belong to."""


class Stage(NamedTuple):
    """One change of logits before a token is chosen, in place.

    `active` says whether a row needs it now; rows for which it says no are not touched and cost nothing.
    """

    name: str
    active: Callable[[RowEdits], bool]
    apply: Callable[[NDArray[np.float32], Edited], None]


def _apply_allowed(values: NDArray[np.float32], edited: Edited) -> None:
    allow_only(values, *_pairs(edited, [edits.allowed for _, edits in edited]))


def _apply_bad_words(values: NDArray[np.float32], edited: Edited) -> None:
    ban(values, *_pairs(edited, [edits.bans() for _, edits in edited]))


def _apply_min_tokens(values: NDArray[np.float32], edited: Edited) -> None:
    ban(values, *_pairs(edited, [edits.end_token_ids for _, edits in edited]))


def _apply_logit_bias(values: NDArray[np.float32], edited: Edited) -> None:
    rows, ids = _pairs(edited, [edits.bias_ids for _, edits in edited])
    add_bias(values, rows, ids, np.concatenate([edits.bias for _, edits in edited]))


def _apply_repetition(values: NDArray[np.float32], edited: Edited) -> None:
    rows, ids, sizes, _ = _seen(edited)
    penalty = np.array([edits.params.repetition_penalty for _, edits in edited], np.float32)
    penalise_repetition(values, rows, ids, np.repeat(penalty, sizes))


def _apply_presence_and_frequency(values: NDArray[np.float32], edited: Edited) -> None:
    rows, ids, sizes, counts = _seen(edited)
    presence = np.array([edits.params.presence_penalty for _, edits in edited], np.float32)
    frequency = np.array([edits.params.frequency_penalty for _, edits in edited], np.float32)
    penalise_presence_and_frequency(
        values, rows, ids, counts, np.repeat(presence, sizes), np.repeat(frequency, sizes)
    )


STAGES = (
    Stage("allowed_token_ids", lambda edits: edits.allowed is not None, _apply_allowed),
    Stage("bad_words", lambda edits: bool(edits.params.bad_words_ids), _apply_bad_words),
    Stage("min_tokens", lambda edits: edits.num_outputs < edits.params.min_tokens, _apply_min_tokens),
    Stage("logit_bias", lambda edits: len(edits.bias_ids) > 0, _apply_logit_bias),
    Stage("repetition_penalty", lambda edits: edits.repeats, _apply_repetition),
    Stage("presence_and_frequency_penalty", lambda edits: edits.counts, _apply_presence_and_frequency),
)
"""In the order of vLLM.  Then a token is chosen: greedy rows take the likeliest id; the others apply
temperature, min_p, top_k and top_p, in this order, inside one op that never writes to the logits."""


def sample(logits: Logits) -> Sampled:
    """Choose one token per logit row and say how likely it was, where a row asks.

    Log-probabilities are those of the model's own logits, before any stage and without temperature (vLLM's
    `raw_logprobs`).  Changes `logits.values` in place.
    """
    rows, at = logits.step.sampling, logits.step.logits_rows
    values = np.require(logits.values, np.float32, ["C", "W"])
    asking = np.flatnonzero(rows.num_logprobs[at] >= 0)
    edited = [(int(j), rows.edits[at[j]]) for j in np.flatnonzero(rows.edited[at])]
    raw, raw_rows = values, asking
    if rows.edited[at[asking]].any():
        raw, raw_rows = values[asking], np.arange(len(asking))
    _edit(values, edited)
    token_ids = _choose(values, rows, at)
    return Sampled(token_ids, _report(raw, raw_rows, token_ids, rows.num_logprobs[at], asking))


def _edit(values: NDArray[np.float32], edited: Edited) -> None:
    for stage in STAGES if edited else ():
        active = [pair for pair in edited if stage.active(pair[1])]
        if active:
            stage.apply(values, active)


def _choose(values: NDArray[np.float32], rows: SamplingRows, at: NDArray[np.int32]) -> NDArray[np.int64]:
    """Greedy rows, rows that draw from all ids, and rows that filter them first: each its op."""
    random = rows.temperature[at] > 0
    filtered = random & ((rows.min_p[at] > 0) | (rows.top_k[at] < rows.vocab_size) | (rows.top_p[at] < 1))
    tokens = np.zeros(len(at), np.int64)
    likeliest, free, some = (np.flatnonzero(which) for which in (~random, random & ~filtered, filtered))
    if len(likeliest):
        tokens[likeliest] = greedy(values, likeliest)
    if len(free):
        tokens[free] = draw(values, free, rows.temperature[at[free]], _uniforms(rows, at[free]))
    if len(some):
        these = at[some]
        tokens[some] = draw_filtered(
            values,
            some,
            rows.temperature[these],
            rows.min_p[these],
            rows.top_k[these],
            rows.top_p[these],
            _uniforms(rows, these),
        )
    return tokens


def _uniforms(rows: SamplingRows, at: NDArray[np.int32]) -> NDArray[np.float32]:
    return uniforms(rows.keys[at], rows.num_outputs[at].astype(np.uint64))


def _report(
    raw: NDArray[np.float32],
    raw_rows: NDArray[np.int64],
    token_ids: NDArray[np.int64],
    num_logprobs: NDArray[np.int64],
    asking: NDArray[np.int64],
) -> list[TokenLogprobs | None]:
    """`raw_rows[i]` is the row of `raw` that holds the model's logits for logit row `asking[i]`."""
    if not len(asking):
        return []
    wanted = num_logprobs[asking].tolist()
    found = gather_logprobs(raw, raw_rows, token_ids[asking], max(wanted))
    lists = zip(asking.tolist(), wanted, *(column.tolist() for column in found), strict=True)
    reports: list[TokenLogprobs | None] = [None] * len(token_ids)
    for j, k, logprob, rank, top_ids, top in lists:
        reports[j] = TokenLogprobs(logprob, rank, top_ids[:k], top[:k])
    return reports


def _ids(token_ids: Sequence[int]) -> NDArray[np.int64]:
    return np.array(token_ids, np.int64)


def _pairs(edited: Edited, ids: list[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Flat pairs (row, id) of ragged lists of ids."""
    rows = np.array([j for j, _ in edited], np.int64)
    return np.repeat(rows, [len(some) for some in ids]), np.concatenate(ids)


def _seen(edited: Edited):
    seen = [edits.seen for _, edits in edited]
    rows, ids = _pairs(edited, [one.ids[: one.size] for one in seen])
    counts = np.concatenate([one.counts[: one.size] for one in seen])
    return rows, ids, [one.size for one in seen], counts
