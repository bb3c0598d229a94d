"""The sampling parameters of a request, with their neutral values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pipelines.base.errors import RequestError

MAX_DRAFT_TOKENS = 32
"""Most tokens drafted for one sequence in a step."""
MAX_NGRAM = 8
"""Longest run of tokens that is looked up: each length takes time and memory."""
MAX_SHOWN_IDS = 16
"""How many token ids at fault an error lists."""

BACKGROUND = 2**62
"""From this priority on a request is background: it gives way to every other."""


@dataclass(slots=True)
class Beams:
    """Beam search over `width` sequences instead of sampling; its outputs come when it ends."""

    width: int
    length_penalty: float = 1.0  # scores are divided by length ** length_penalty
    early_stopping: bool | Literal["never"] = False  # as in transformers: at the `width`-th finished beam;
    # when the best open one would not win if it ended now; or when it cannot win any more


@dataclass(slots=True)
class RepetitionDetection:
    """End a sequence whose output ends with one pattern `min_count` times in a row."""

    max_pattern_size: int
    min_count: int
    min_pattern_size: int = 1


@dataclass(slots=True)
class Thinking:
    """Reasoning before the answer: its markers, and how long it may be.

    With `opened` the output begins inside it; otherwise the model may open it with `start`.
    """

    start: str
    end: str
    opened: bool = False
    budget: int | None = None  # tokens between the markers; None: no limit


@dataclass(frozen=True, slots=True)
class HeldCalls:
    """Tool calls in free text: after each `trigger`, the text is what `grammar` allows until that is
    complete.
    """

    trigger: str
    grammar: str  # of what follows the trigger
    once: bool = False  # the output ends after the first


@dataclass(slots=True)
class GuideSpec:
    """What an output is restricted to; the graph's grammar node makes a `Guide` of it, in the engine host."""

    grammar: str | None = None  # in llguidance's language; None: anything
    thinking: Thinking | None = None  # grammar and calls hold only after it
    calls: HeldCalls | None = None  # only without a grammar

    @property
    def demanded(self) -> bool:
        """Whether the request asked for it; calls are held only where a model's tokens allow it."""
        return self.grammar is not None or (self.thinking is not None and self.thinking.budget is not None)


@dataclass(slots=True)
class TimestampRules:
    """Times among the tokens of text, by Whisper's rules: `first` is the id of 0.00, ids above it are later.

    Times come in pairs and never go back; the output begins with one, at most `max_initial` ids above the
    first; a time is chosen where all times together are likelier than any other token.
    """

    first: int
    max_initial: int | None = None


@dataclass(slots=True)
class LlamaSamplers:
    """Parameters of llama.cpp's samplers that others do not have; each default is the neutral value."""

    top_n_sigma: float = 0.0  # standard deviations below the largest logit; 0 and less is off
    typical_p: float = 1.0  # mass of the tokens whose surprise is nearest to the entropy
    xtc_probability: float = 0.0  # how often the likeliest tokens are left out
    xtc_threshold: float = 0.1  # which ones: those that reach it, but for the least likely of them
    dry_multiplier: float = 0.0  # 0 is off
    dry_base: float = 1.75
    dry_allowed_length: int = 2  # a repetition of this many tokens is free
    dry_last_n: int = 64  # how many tokens are searched for repetitions
    dry_breaker_ids: list[int] = field(default_factory=list)  # no repetition reaches across one
    mirostat: int = 0  # its version: 1 or 2; 0 is off
    mirostat_tau: float = 5.0  # the target of the surprise, in bits
    mirostat_eta: float = 0.1  # how fast it is approached

    @property
    def masks(self) -> bool:
        """Whether one of them leaves tokens out."""
        has_mask = self.top_n_sigma > 0 or self.typical_p < 1 or self.xtc_probability > 0
        return has_mask or self.mirostat > 0


@dataclass(slots=True)
class SamplingParams:
    """Per-request sampling parameters; each default is the neutral value, which costs nothing.

    Ranges are checked where requests are parsed (`pipelines/requests/generation`).
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
    logit_bias: dict[int, float] = field(default_factory=dict)
    allowed_token_ids: list[int] | None = None
    bad_words_ids: list[list[int]] = field(default_factory=list)  # sequences of ids not to be completed
    opening: list[list[int]] = field(
        default_factory=list
    )  # the i-th token is one of opening[i]; these do not count in max_tokens
    begin_suppress_ids: list[int] = field(default_factory=list)  # not the first token after the opening
    timestamps: TimestampRules | None = None  # of the output after the opening
    stop_token_ids: list[int] = field(
        default_factory=list
    )  # end the sequence, as the model's own end tokens do
    ignore_eos: bool = False
    seed: int = 0  # 64 bits; drawn at random by the worker when the request names none
    logprobs: int | None = None  # None: none; k: the chosen token's and the k likeliest alternatives'
    prompt_logprobs: int | None = None  # the same of every prompt token but the first
    logprob_token_ids: list[int] = field(default_factory=list)  # the alternatives instead of the likeliest
    temp_scaled_logprobs: bool = False  # of the logits after temperature
    top_p_normalized_logprobs: bool = False  # of the tokens that top_p leaves, renormalised
    repetition_detection: RepetitionDetection | None = None
    llama: LlamaSamplers | None = None  # None: all of them are off
    beams: Beams | None = None
    guide: GuideSpec | None = None
    num_draft_tokens: int | None = (
        None  # most tokens drafted ahead in a step; None: as the graph says; 0: none
    )
    draft_threshold: float = 0.0  # a draft stops where its own token is less probable than this
    max_ngram: int | None = None  # longest run of tokens that is looked up; None: as the graph says
    expected_ids: list[int] = field(default_factory=list)  # the output as it probably is, for a lookup node
    draft_logprobs: bool = False  # send the draft model's log-probabilities of the accepted draft tokens
    return_routed_experts: bool | None = None  # which experts each token chose; None: as the graph says
    routed_experts_prompt_start: int = 0  # without those of the first tokens of the prompt
    priority: int = 0  # the smaller, the sooner it is admitted; equal ones in the order of arrival

    @property
    def is_background(self) -> bool:
        """Whether it gives way to every request that is not."""
        return self.priority >= BACKGROUND


def check_ids(params: SamplingParams, vocab_size: int) -> None:
    """Raises RequestError where a parameter names a token that the model does not have, or allows none."""
    if params.allowed_token_ids == []:
        raise RequestError("allowed_token_ids is not None and empty!", field="allowed_token_ids")
    for name, ids in (
        ("logit_bias", list(params.logit_bias)),
        ("allowed_token_ids", params.allowed_token_ids or []),
        ("bad_words", [token for word in params.bad_words_ids for token in word]),
        ("stop_token_ids", params.stop_token_ids),
        ("expected", params.expected_ids),
        ("logprob_token_ids", params.logprob_token_ids),
        ("opening", [token for choice in params.opening for token in choice]),
        ("begin_suppress_tokens", params.begin_suppress_ids),
        ("timestamps", [] if params.timestamps is None else [params.timestamps.first]),
    ):
        outside = sorted({token for token in ids if not 0 <= token < vocab_size})
        if outside:
            more = f" and {len(outside) - MAX_SHOWN_IDS} more" if len(outside) > MAX_SHOWN_IDS else ""
            raise RequestError(
                f"token_id(s) {outside[:MAX_SHOWN_IDS]}{more} in {name} contain out-of-vocab token ids. "
                f"Vocabulary size: {vocab_size}",
                field=name,
            )
