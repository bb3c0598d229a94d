"""The fields that chat/completions and completions share.

A declared field is honoured; `known_fields.py` lists the others.  Does not depend on HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.requests.fields.field_types import (
    AllowedIds,
    BadWords,
    Breakers,
    CacheSalt,
    ChosenIds,
    Confidence,
    Interval,
    KeptTokens,
    LastTokens,
    LengthPenalty,
    ListedIds,
    LogitBias,
    MinP,
    MinTokens,
    MostTokens,
    NgramSize,
    NotNegative,
    Number,
    NumChoices,
    NumDraftTokens,
    NumLogprobs,
    NumTokens,
    Penalty,
    Priority,
    PromptStart,
    RepetitionPenalty,
    RequestId,
    Seed,
    Stops,
    Temperature,
    TopK,
    TopP,
)
from pipelines.requests.fields.known_fields import IGNORED_STREAM_OPTIONS, REFUSED, Options, Refused
from pipelines.requests.generation.llama_fields import BREAKERS, llama_samplers
from pipelines.requests.generation.processors import Processors, read_processors
from pipelines.requests.generation.repetition import Repetition
from pipelines.requests.generation.structured import read_constraint
from pipelines.values.tasks import Constraint
from pipelines.wire.sampling_params import Beams, LlamaSamplers


class StreamOptions(Options):
    """Options of a stream."""

    where: ClassVar[str] = "stream_options"
    ignored: ClassVar[Mapping[str, str]] = IGNORED_STREAM_OPTIONS

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class GenerationFields(DeferredModel):
    """The fields that chat/completions and completions share.  Null means: not set."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    refused: ClassVar[Mapping[str, Refused]] = REFUSED
    default_max_tokens: ClassVar[int | None] = None

    model: StrictStr | None = None
    n: NumChoices | None = None
    best_of: NumChoices | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stream_interval: Interval | None = None
    max_streaming_response_tokens: Interval | None = None
    max_tokens: NumTokens | None = None
    n_predict: MostTokens | None = None
    min_tokens: MinTokens | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    repetition_penalty: RepetitionPenalty | None = None
    repeat_penalty: RepetitionPenalty | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_detection: Repetition | None = None
    top_n_sigma: Number | None = None
    typical_p: Confidence | None = None
    xtc_probability: Confidence | None = None
    xtc_threshold: Confidence | None = None
    dry_multiplier: NotNegative | None = None
    dry_base: NotNegative | None = None
    dry_allowed_length: LastTokens | None = None
    dry_penalty_last_n: LastTokens | None = None
    dry_sequence_breakers: Breakers | None = None
    mirostat: Literal[0, 1, 2] | None = None
    mirostat_tau: NotNegative | None = None
    mirostat_eta: NotNegative | None = None
    logit_bias: LogitBias | None = None
    logits_processors_args: dict[str, Any] | None = None
    allowed_token_ids: AllowedIds | None = None
    bad_words: BadWords | None = None
    bad_words_token_ids: ListedIds | None = None
    stop: Stops | None = None
    stop_token_ids: ListedIds | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    seed: Seed | None = None
    random_seed: Seed | None = None
    use_beam_search: bool | None = None
    length_penalty: LengthPenalty | None = None
    early_stopping: bool | Literal["never"] | None = None
    num_assistant_tokens: NumDraftTokens | None = None
    assistant_confidence_threshold: Confidence | None = None
    max_ngram_size: NgramSize | None = None
    prompt_token_ids: Any = None
    truncate_prompt_tokens: KeptTokens | None = None
    truncation_side: Literal["left", "right"] | None = None
    echo: bool | None = None
    prompt_logprobs: NumLogprobs | None = None
    logprob_token_ids: ChosenIds | None = None
    temp_scaled_logprobs: bool | None = None
    top_p_normalized_logprobs: bool | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    include_logprobs_decode_token: bool | None = None
    include_draft_logprobs: bool | None = None
    return_routed_experts: bool | None = None
    routed_experts_prompt_start: PromptStart | None = None
    response_format: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None
    guided_json: Any = None
    guided_regex: StrictStr | None = None
    guided_choice: Any = None
    guided_grammar: StrictStr | None = None
    guided_whitespace_pattern: StrictStr | None = None
    structural_tag: Any = None
    grammar: StrictStr | None = None
    json_schema: Any = None
    ebnf: StrictStr | None = None
    regex: StrictStr | None = None
    priority: Priority | None = None
    cache_salt: CacheSalt | None = None
    request_id: RequestId | None = None

    @property
    def num_returned(self) -> int:
        """Choices for each prompt in the reply."""
        return self.n or 1

    @property
    def num_choices(self) -> int:
        """Choices that are computed for each prompt: with `best_of`, more than are returned.

        Greedy sampling computes only the returned ones, as in vLLM; beam search picks the best itself.
        """
        draws = self.temperature != 0 and not self.use_beam_search
        return self.beam_width if draws else self.num_returned

    @property
    def picks_best(self) -> bool:
        """Whether choices are compared, which takes log-probabilities even where none are returned."""
        return self.num_choices > self.num_returned

    @property
    def num_tokens(self) -> int | None:
        """The requested limit of output tokens, None without one."""
        return self.max_tokens

    @property
    def most_tokens(self) -> int | None:
        """The limit of output tokens that holds without `num_tokens`, None for what is left of the context.

        It may be more than the context has room for: llama.cpp's `n_predict` is cut there.
        """
        if self.n_predict is None:
            return self.default_max_tokens
        return self.n_predict if self.n_predict > 0 else None

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def continuous_usage(self) -> bool:
        """Usage on every chunk; as in vLLM it takes effect together with `include_usage` only."""
        return self.include_usage and bool(self.stream_options and self.stream_options.continuous_usage_stats)

    @property
    def tokens_per_event(self) -> int:
        return self.stream_interval or self.max_streaming_response_tokens or 1

    @property
    def tokens_as_ids(self) -> bool:
        return bool(self.return_tokens_as_token_ids) or self.include_logprobs_decode_token is False

    @property
    def beam_width(self) -> int:
        return max(self.best_of or 1, self.num_returned)

    @property
    def beams(self) -> Beams | None:
        if not self.use_beam_search:
            return None
        penalty = 1.0 if self.length_penalty is None else self.length_penalty
        return Beams(self.beam_width, penalty, self.early_stopping or False)

    @property
    def llama(self) -> LlamaSamplers | None:
        """llama.cpp's samplers; None where all are off."""
        values = values_of_llama(self)
        return llama_samplers(dict(zip(LLAMA_FIELDS, values, strict=True))) if any_set(values) else None

    @property
    def breakers(self) -> list[str]:
        """The texts across which no repetition reaches."""
        return [*BREAKERS] if self.dry_sequence_breakers is None else self.dry_sequence_breakers

    @property
    def compiles(self) -> bool:
        """Whether it has a grammar or a schema, which may take long to compile even when it is short."""
        return any_set(values_of_constraints(self))

    def alternatives(self) -> int | None:
        """Number of alternatives per output token; None: no log-probabilities."""
        raise NotImplementedError

    def scores_prompt(self) -> int | None:
        """Number of alternatives per prompt token; None: no log-probabilities."""
        return self.prompt_logprobs

    @property
    def wanted_seed(self) -> int | None:
        """`seed`, or mistralai's name for it; None for a random one."""
        seed = self.random_seed if self.seed is None else self.seed
        return None if seed == -1 else seed

    @property
    def wanted_repetition_penalty(self) -> float | None:
        """`repetition_penalty`, or llama.cpp's name for it."""
        return self.repeat_penalty if self.repetition_penalty is None else self.repetition_penalty

    def processors(self) -> Processors:
        return read_processors(self.logits_processors_args)

    def thinking_budget(self) -> int | None:
        """The limit of reasoning tokens; None: no limit."""
        return self.processors().thinking_budget

    def constraint(self) -> Constraint | None:
        values = values_of_constraints(self)
        return read_constraint(dict(zip(CONSTRAINTS, values, strict=True))) if any_set(values) else None


def any_set(values: tuple[Any, ...]) -> bool:
    """Whether a request has one of some fields, of which most have none."""
    return values.count(None) < len(values)


LLAMA_FIELDS = (
    "top_n_sigma",
    "typical_p",
    "xtc_probability",
    "xtc_threshold",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
)
"""Fields of llama.cpp's samplers that others do not have."""
values_of_llama = attrgetter(*LLAMA_FIELDS)
CONSTRAINTS = (
    "response_format",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "guided_whitespace_pattern",
    "structural_tag",
    "grammar",
    "json_schema",
    "ebnf",
    "regex",
)
"""Fields that constrain the text of a reply."""
values_of_constraints = attrgetter(*CONSTRAINTS)
