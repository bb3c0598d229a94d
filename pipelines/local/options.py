"""The options of calls from Python: fields of requests over HTTP, by the same names.

docs/fields.md says what each means.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class SamplingOptions(TypedDict, total=False):
    """How text is generated, in chats and in completions."""

    n: int
    max_tokens: int
    min_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    top_n_sigma: float
    typical_p: float
    xtc_probability: float
    xtc_threshold: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: list[str]
    mirostat: Literal[0, 1, 2]
    mirostat_tau: float
    mirostat_eta: float
    repetition_detection: dict[str, Any]
    logit_bias: dict[str, float]
    allowed_token_ids: list[int]
    bad_words: list[str]
    bad_words_token_ids: list[int]
    stop: str | list[str]
    stop_token_ids: list[int]
    include_stop_str_in_output: bool
    ignore_eos: bool
    skip_special_tokens: bool
    seed: int
    use_beam_search: bool
    length_penalty: float
    early_stopping: bool | Literal["never"]
    num_assistant_tokens: int
    assistant_confidence_threshold: float
    max_ngram_size: int
    truncate_prompt_tokens: int
    truncation_side: Literal["left", "right"]
    prompt_logprobs: int
    logprob_token_ids: list[int]
    temp_scaled_logprobs: bool
    top_p_normalized_logprobs: bool
    response_format: dict[str, Any]
    structured_outputs: dict[str, Any]
    priority: int
    cache_salt: str


class ChatOptions(SamplingOptions, total=False):
    """The options of a chat."""

    logprobs: bool
    top_logprobs: int
    max_completion_tokens: int
    tools: list[dict[str, Any]]
    tool_choice: str | dict[str, Any]
    parallel_tool_calls: bool
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
    enable_thinking: bool
    thinking_token_budget: int
    add_generation_prompt: bool
    continue_final_message: bool
    chat_template: str
    chat_template_kwargs: dict[str, Any]
    documents: list[dict[str, str]]


class CompletionOptions(SamplingOptions, total=False):
    """The options of a completion; `logprobs` is the number of alternatives for each token."""

    logprobs: int
    add_special_tokens: bool


class EmbeddingOptions(TypedDict, total=False):
    """The options of embeddings; `input_type` chooses the prompt that a model puts before each text."""

    dimensions: int
    input_type: str
    add_special_tokens: bool
    truncate_prompt_tokens: int
    truncation_side: Literal["left", "right"]
    use_activation: bool
    priority: int
    embedding_kinds: list[str]


class ClassificationOptions(TypedDict, total=False):
    """The options of classes."""

    add_special_tokens: bool
    truncate_prompt_tokens: int
    truncation_side: Literal["left", "right"]
    use_activation: bool
    priority: int


class EntityOptions(ClassificationOptions, total=False):
    """The options of entities; `labels` and what follows are for models that find those of a request."""

    labels: list[str] | dict[str, str] | list[list[str]] | list[dict[str, str]]
    threshold: float
    flat_ner: bool
    multi_label: bool


class RankingOptions(TypedDict, total=False):
    """The options of a ranking."""

    top_n: int
    instruction: str
    chunk_documents: bool
    max_tokens_per_query: int
    max_tokens_per_doc: int
    raw_scores: bool
    chat_template: str
    chat_template_kwargs: dict[str, Any]
    truncate_prompt_tokens: int
    truncation_side: Literal["left", "right"]
    use_activation: bool
    priority: int


class SearchOptions(TypedDict, total=False):
    """The options of a search."""

    top: int
    filters: dict[str, Any]
    weights: dict[str, float]
    rerank: bool
    score_threshold: float
    priority: int


class TranscriptionOptions(TypedDict, total=False):
    """The options of transcriptions: of what times are wanted is in `timestamp_granularities`."""

    language: str
    prompt: str
    timestamp_granularities: list[Literal["segment", "word"]]
    long_form: Literal["parallel", "sequential"]
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int
    frequency_penalty: float
    repetition_penalty: float
    presence_penalty: float
    max_completion_tokens: int
    priority: int
