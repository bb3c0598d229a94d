"""What changes single logits of one sequence: banned and allowed ids, biases, and penalties for its
tokens.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.sampling.timestamps import TimestampState
from pipelines.wire.sampling_params import SamplingParams

EDITING = (
    "allowed_token_ids",
    "bad_words_ids",
    "opening",
    "begin_suppress_ids",
    "timestamps",
    "min_tokens",
    "logit_bias",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "llama",
)
"""The sampling parameters that stages read: a request in which all are neutral has no edits."""
NEUTRAL = {name: getattr(SamplingParams(), name) for name in EDITING}


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
        self.restricts = params.allowed_token_ids is not None
        self.allowed = np.unique(_ids(params.allowed_token_ids or ()))
        self.banned = _ids([word[0] for word in params.bad_words_ids if len(word) == 1])
        self.phrases = [word for word in params.bad_words_ids if len(word) > 1]
        self.tail = TokenTail(output_ids, max(map(len, self.phrases), default=1) - 1)
        self.end_token_ids = _ids(end_token_ids)
        self.opening = [_ids(choice) for choice in params.opening]
        self.begin_suppressed = _ids(params.begin_suppress_ids)
        self.times = self._times(output_ids)
        self.bias_ids = _ids(list(params.logit_bias))
        self.bias = np.array(list(params.logit_bias.values()), np.float32)
        self.repeats = params.repetition_penalty != 1
        self.counts = params.presence_penalty != 0 or params.frequency_penalty != 0
        self.remembers = self.repeats or self.counts
        self.seen = SeenTokens(prompt_ids if self.repeats else (), output_ids if self.remembers else ())
        self._set_llama(prompt_ids, output_ids)

    def _set_llama(self, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> None:
        """The state of llama.cpp's samplers: the last tokens, and the surprise that mirostat allows, in bits.

        `candidates` are the tokens among which the next one is chosen, with their probabilities.
        """
        llama = self.params.llama
        self.repeats_cost = llama is not None and llama.dry_multiplier > 0
        self.dry_breakers = frozenset(llama.dry_breaker_ids if llama is not None else ())
        last_n = llama.dry_last_n if llama is not None and self.repeats_cost else 0
        self.history = TokenTail([*prompt_ids, *output_ids] if last_n else [], last_n)
        self.surprise = 2 * llama.mirostat_tau if llama is not None else 0.0
        self.candidates: dict[int, float] = {}

    def _times(self, output_ids: Sequence[int]) -> TimestampState | None:
        rules = self.params.timestamps
        if rules is None:
            return None
        text_end = int(self.end_token_ids.min(initial=rules.first))
        return TimestampState(rules, text_end, output_ids[len(self.opening) :])

    @property
    def begins(self) -> bool:
        """Whether the next token is the first after the opening."""
        return self.num_outputs == len(self.opening)

    @property
    def opens(self) -> bool:
        """Whether the next token belongs to the opening."""
        return self.num_outputs < len(self.opening)

    def append(self, token_id: int) -> None:
        if self.times is not None and not self.opens:
            self.times.append(token_id)
        self.num_outputs += 1
        if self.phrases:
            self.tail.append(token_id)
        if self.remembers:
            self.seen.append(token_id)
        if self.repeats_cost:
            self.history.append(token_id)
        if self.candidates:
            self._learn(token_id)

    def _learn(self, token_id: int) -> None:
        """Mirostat: a token that surprised more than the target lets the next one surprise less."""
        llama, chance = self.params.llama, self.candidates.get(token_id, 0.0)
        if llama is not None and chance > 0:
            self.surprise -= llama.mirostat_eta * (-math.log2(chance) - llama.mirostat_tau)
        self.candidates = {}

    def after(self, token_ids: Sequence[int]) -> RowEdits:
        """These edits as if `token_ids` were appended, read-only; self does not change."""
        counts_outputs = self.num_outputs < max(self.params.min_tokens, len(self.opening) + 1)
        has_state = self.remembers or self.phrases or self.params.llama is not None
        if not (has_state or counts_outputs or self.times is not None):
            return self
        later = copy(self)
        if self.times is not None:
            later.times = self.times.after(token_ids[max(len(self.opening) - self.num_outputs, 0) :])
        later.num_outputs += len(token_ids)
        if self.phrases:
            later.tail = self.tail.after(token_ids)
        if self.remembers:
            later.seen = self.seen.after(token_ids)
        if self.repeats_cost:
            later.history = self.history.after(token_ids)
        return later

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

    def after(self, token_ids: Sequence[int]) -> TokenTail:
        later = copy(self)
        later.tokens = self.tokens.copy()
        later.tokens.extend(token_ids)
        return later

    def ends_with(self, token_ids: Sequence[int]) -> bool:
        missing = len(self.tokens) - len(token_ids)
        return missing >= 0 and all(self.tokens[missing + i] == token for i, token in enumerate(token_ids))


class SeenTokens:
    """The distinct tokens of a prompt and its output, and how often each occurs in the output.

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

    def after(self, token_ids: Sequence[int]) -> SeenTokens:
        """The edits as if tokens were appended; shares `place`, which lacks the new ones."""
        later, room, new = copy(self), len(token_ids), dict[int, int]()
        later.ids = np.concatenate([self.ids[: self.size], np.zeros(room, np.int64)])
        later.counts = np.concatenate([self.counts[: self.size], np.zeros(room, np.float32)])
        for token_id in token_ids:
            at = self.place.get(token_id, -1)
            if at < 0:
                at = new.setdefault(token_id, self.size + len(new))
                later.ids[at] = token_id
            later.counts[at] += 1
        later.size += len(new)
        return later

    def _grow(self) -> None:
        if self.size == len(self.ids):
            room = max(64, self.size // 2)
            self.ids = np.concatenate([self.ids, np.zeros(room, np.int64)])
            self.counts = np.concatenate([self.counts, np.zeros(room, np.float32)])


def has_edits(params: SamplingParams) -> bool:
    """Whether any stage may change this request's logits: a parameter of `EDITING` is not neutral."""
    return any(getattr(params, name) != neutral for name, neutral in NEUTRAL.items())


def _ids(token_ids: Sequence[int]) -> NDArray[np.int64]:
    return np.array(token_ids, np.int64)
