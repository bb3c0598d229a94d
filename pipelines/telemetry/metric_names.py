"""The tables of metrics: names (vLLM's where it has them), buckets, texts, and the counts they follow."""

from __future__ import annotations

from typing import Literal, NamedTuple

_SUBSECOND_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75)
FIRST_TOKEN_BUCKETS_S = (*_SUBSECOND_S, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560)
_FRACTIONS_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75)
TOKEN_BUCKETS_S = (*_FRACTIONS_S, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_FEW_S = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5)
REQUEST_BUCKETS_S = (*_FEW_S, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)

_DIGITS = (1, 2, 5)
NUM_TOKENS_BUCKETS = tuple(digit * 10**power for power in range(6) for digit in _DIGITS)
NUM_CHOICES_BUCKETS = (*_DIGITS, 10, 20)
STEP_TOKENS_BUCKETS = (1, *(2**power for power in range(3, 15)))
_FRACTIONS_OF_HTTP_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75)
HTTP_BUCKETS_S = (*_FRACTIONS_OF_HTTP_S, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60)
FEW_HTTP_BUCKETS_S = (0.1, 0.5, 1)

GAUGES = {
    "vllm:num_requests_running": "Sequences that take part in steps.",
    "vllm:num_requests_waiting": "Sequences that wait for a first or another turn.",
    "vllm:kv_cache_usage_perc": "Part of the cache blocks in use, 0 to 1.",
    "vllm:num_requests_swapped": "Waiting sequences whose blocks are in host memory.",
    "vllm:cpu_cache_usage_perc": "Part of the host blocks for swapping in use, 0 to 1.",
}
COUNTERS = {
    "vllm:num_preemptions": "Sequences set back because blocks ran out.",
    "braid:swapped_out_blocks": "Cache blocks moved to host memory.",
    "braid:swapped_in_blocks": "Cache blocks moved back from host memory.",
    "vllm:prompt_tokens": "Prompt tokens computed or found in the prefix cache.",
    "braid:padding_tokens": "Tokens computed for nothing, so that texts side by side are of one width.",
    "vllm:prompt_tokens_cached": "Prompt tokens found in the prefix cache.",
    "vllm:generation_tokens": "Tokens generated.",
    "vllm:prefix_cache_queries": "Prompt tokens looked up in the prefix cache.",
    "vllm:prefix_cache_hits": "Prompt tokens found in the prefix cache.",
    "braid:prefix_file_blocks_read": "Cache blocks brought back from the file of prefixes.",
    "braid:prefix_file_blocks_written": "Cache blocks written to the file of prefixes.",
    "vllm:mm_cache_queries": "Images looked up among those that were encoded.",
    "vllm:mm_cache_hits": "Images found among those that were encoded.",
}
ENGINE_UP = "braid:engine_up"
OF_ENGINE = {
    "vllm:num_requests_running": "braid:engine_num_requests_running",
    "vllm:num_requests_waiting": "braid:engine_num_requests_waiting",
    "vllm:kv_cache_usage_perc": "braid:engine_kv_cache_usage_perc",
    "vllm:num_preemptions": "braid:engine_num_preemptions",
    "vllm:prompt_tokens": "braid:engine_prompt_tokens",
    "vllm:generation_tokens": "braid:engine_generation_tokens",
    "vllm:prefix_cache_queries": "braid:engine_prefix_cache_queries",
    "vllm:prefix_cache_hits": "braid:engine_prefix_cache_hits",
}
"""Gauges and counters that each of several engines has for itself as well, with a label of its own."""
EXPERT_CHOICES = "braid:expert_choices"
EXPERT_GAUGES = {
    "braid:busiest_expert": "Times its even share that the busiest expert of a layer has, mean of layers.",
    "braid:unused_experts": "Part of the routed experts that no token chose yet, 0 to 1.",
}
"""Gauges of models whose graph has `routed_experts`."""
DRAFT_TOKENS = {
    "vllm:spec_decode_num_drafts": "Runs of tokens that were drafted ahead.",
    "vllm:spec_decode_num_draft_tokens": "Tokens that were drafted ahead.",
    "vllm:spec_decode_num_accepted_tokens": "Draft tokens that were accepted.",
}
"""Counters that are there once a token was drafted."""
DRAFT_TOKENS_BY_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"
HISTOGRAMS = {
    "vllm:time_to_first_token_seconds": (FIRST_TOKEN_BUCKETS_S, "From arrival to a choice's first token."),
    "vllm:inter_token_latency_seconds": (TOKEN_BUCKETS_S, "Between tokens of a choice, at the worker."),
    "vllm:request_time_per_output_token_seconds": (TOKEN_BUCKETS_S, "Mean of a choice, without its first."),
    "vllm:e2e_request_latency_seconds": (REQUEST_BUCKETS_S, "From arrival to a choice's end."),
    "vllm:request_queue_time_seconds": (REQUEST_BUCKETS_S, "From sending a prompt or text to its admission."),
    "vllm:request_prefill_time_seconds": (REQUEST_BUCKETS_S, "From admission to a first token, or a row."),
    "vllm:request_decode_time_seconds": (REQUEST_BUCKETS_S, "From a choice's first token to its last."),
    "vllm:request_inference_time_seconds": (REQUEST_BUCKETS_S, "From admission to a last token, or a row."),
    "vllm:iteration_tokens_total": (STEP_TOKENS_BUCKETS, "Tokens that a step computes."),
    "vllm:request_prompt_tokens": (NUM_TOKENS_BUCKETS, "Tokens of a prompt."),
    "vllm:request_prefill_kv_computed_tokens": (NUM_TOKENS_BUCKETS, "Tokens of a prompt that were computed."),
    "vllm:request_generation_tokens": (NUM_TOKENS_BUCKETS, "Tokens of a choice that had any."),
    "vllm:request_max_num_generation_tokens": (NUM_TOKENS_BUCKETS, "Tokens of a prompt's longest choice."),
    "vllm:request_params_n": (NUM_CHOICES_BUCKETS, "Choices that a request asks for, for each prompt."),
    "vllm:request_params_max_tokens": (NUM_TOKENS_BUCKETS, "Most tokens that a choice may have."),
}
FINISHED = "vllm:request_success"
STEPS = "braid:steps"
STEP_TIME = "braid:step_seconds"
CACHE = "vllm:cache_config_info"
LORA = "vllm:lora_requests_info"
TOOL_PARSER = "vllm:tool_call_parser_invocations"
PROMPT_TOKENS_BY_SOURCE = "vllm:prompt_tokens_by_source"
WAITING_BY_REASON = "vllm:num_requests_waiting_by_reason"
START_TIME = "process_start_time_seconds"
LINE_DECISIONS = "braid:line_decisions"
IGNORED_FIELDS = "braid:ignored_request_fields"
LOADED = "ovms_graph_loaded"
MODEL_BYTES = "braid:model_bytes"
LOADS = "braid:model_loads"
LOAD_TIME = "braid:model_load_seconds"
UNLOADS = "braid:model_unloads"
NODE_RUNS = "braid:node_runs"
NODE_SECONDS = "braid:node_seconds"
AUDIO_SECONDS = "braid:audio_seconds"
REAL_TIME_FACTOR = "braid:audio_real_time_factor"
SOCKETS = "braid:open_sockets"
BATCH_REQUESTS = "braid:batch_requests"
BATCH_REQUESTS_RUNNING = "braid:batch_requests_running"
SPOKEN_SECONDS = "braid:speech_seconds"
SPEECH_REAL_TIME_FACTOR = "braid:speech_real_time_factor"
KEY_REQUESTS = "braid:key_requests"
KEY_TOKENS = "braid:key_tokens"
KEY_LIMITED = "braid:key_limited_requests"

PROGRESS = {
    "vllm:num_preemptions": "preemptions",
    "braid:swapped_out_blocks": "swapped_out_blocks",
    "braid:swapped_in_blocks": "swapped_in_blocks",
    "vllm:prompt_tokens": "prompt_tokens",
    "vllm:prompt_tokens_cached": "prefix_hit_tokens",
    "braid:padding_tokens": "padding_tokens",
    "vllm:generation_tokens": "output_tokens",
    "vllm:prefix_cache_queries": "prefix_query_tokens",
    "vllm:prefix_cache_hits": "prefix_hit_tokens",
    "braid:prefix_file_blocks_read": "prefix_blocks_read",
    "braid:prefix_file_blocks_written": "prefix_blocks_written",
    "vllm:mm_cache_queries": "image_queries",
    "vllm:mm_cache_hits": "image_hits",
}
"""Which total of an engine's Counts each counter follows."""
DRAFTED = {
    "vllm:spec_decode_num_drafts": "drafts",
    "vllm:spec_decode_num_draft_tokens": "draft_tokens",
    "vllm:spec_decode_num_accepted_tokens": "accepted_tokens",
}


class CacheShape(NamedTuple):
    """The labels of CACHE: an engine's key-value cache in vLLM's words.  A block is `block_size` tokens."""

    block_size: int
    num_gpu_blocks: int
    num_cpu_blocks: int
    enable_prefix_caching: bool


class LoraLoad(NamedTuple):
    """The labels of LORA, as in vLLM: names separated by commas, and how many are in memory at most."""

    max_lora: int
    waiting_lora_adapters: str
    running_lora_adapters: str


class MetricSpec(NamedTuple):
    """How a metric is made; `mode` is how the gauges of several processes become one."""

    kind: Literal["counter", "gauge", "histogram", "summary"]
    text: str
    labels: tuple[str, ...] = ("model_name",)
    buckets: tuple[float, ...] = ()
    mode: Literal["livesum", "liveall", "livemax"] = "livesum"


METRICS = {
    ENGINE_UP: MetricSpec("gauge", "1 for each of several engines that runs.", ("engine",)),
    **{
        own: MetricSpec(
            "gauge" if name in GAUGES else "counter", (GAUGES | COUNTERS)[name], ("model_name", "engine")
        )
        for name, own in OF_ENGINE.items()
    },
    **{name: MetricSpec("gauge", text) for name, text in GAUGES.items()},
    **{name: MetricSpec("counter", text) for name, text in (COUNTERS | DRAFT_TOKENS).items()},
    **{name: MetricSpec("histogram", text, buckets=bounds) for name, (bounds, text) in HISTOGRAMS.items()},
    FINISHED: MetricSpec("counter", "Choices that ended, by the reason.", ("model_name", "finished_reason")),
    DRAFT_TOKENS_BY_POSITION: MetricSpec(
        "counter", "Draft tokens that were accepted, by place.", ("model_name", "position")
    ),
    EXPERT_CHOICES: MetricSpec("counter", "Routed experts that tokens chose, in all layers."),
    **{name: MetricSpec("gauge", text, mode="livemax") for name, text in EXPERT_GAUGES.items()},
    TOOL_PARSER: MetricSpec(
        "counter",
        "Deltas of streams, and whole choices, in which tool calls were looked for.",
        ("model_name", "mode", "outcome", "request_type"),
    ),
    LINE_DECISIONS: MetricSpec(
        "counter",
        "Decisions of lines of composed graphs: the model that a choose, cascade or join line took, and "
        "what a guard or decide line decided.",
        ("model_name", "line", "decision"),
    ),
    PROMPT_TOKENS_BY_SOURCE: MetricSpec(
        "counter", "Prompt tokens by where their cache came from.", ("model_name", "source")
    ),
    WAITING_BY_REASON: MetricSpec("gauge", "Sequences that wait, by reason.", ("model_name", "reason")),
    STEPS: MetricSpec("counter", "Steps, by kind.", ("model_name", "kind")),
    STEP_TIME: MetricSpec("counter", "Time of steps, by kind and phase.", ("model_name", "kind", "phase")),
    CACHE: MetricSpec("gauge", "1 for each cache.", ("model_name", *CacheShape._fields), mode="livemax"),
    LORA: MetricSpec(
        "gauge",
        "When these adapters ran and waited.",
        ("model_name", *LoraLoad._fields),
        mode="livemax",
    ),
    LOADED: MetricSpec(
        "gauge", "1 for a model that is loaded, 0 for one that is not.", ("name",), mode="livemax"
    ),
    MODEL_BYTES: MetricSpec("gauge", "Bytes that a loaded model takes: weights and cache."),
    LOADS: MetricSpec("counter", "Loads of models, by result.", ("model_name", "result")),
    LOAD_TIME: MetricSpec("histogram", "Time of loads of models.", buckets=REQUEST_BUCKETS_S),
    UNLOADS: MetricSpec("counter", "Models that left memory, by reason.", ("model_name", "reason")),
    NODE_RUNS: MetricSpec("counter", "Runs of nodes in workers.", ("model_name", "node")),
    NODE_SECONDS: MetricSpec("counter", "Time that nodes take in workers.", ("model_name", "node")),
    AUDIO_SECONDS: MetricSpec("counter", "Seconds of sound that became text."),
    REAL_TIME_FACTOR: MetricSpec(
        "histogram", "Time of a transcription, in parts of the length of its sound.", buckets=TOKEN_BUCKETS_S
    ),
    SOCKETS: MetricSpec("gauge", "WebSockets that are open.", ()),
    BATCH_REQUESTS: MetricSpec("counter", "Requests of batches that ended, by state.", ("state",)),
    BATCH_REQUESTS_RUNNING: MetricSpec("gauge", "Requests of batches in flight.", ()),
    SPOKEN_SECONDS: MetricSpec("counter", "Seconds of sound that were made of text."),
    SPEECH_REAL_TIME_FACTOR: MetricSpec(
        "histogram", "Time of speaking a text, in parts of the length of its sound.", buckets=TOKEN_BUCKETS_S
    ),
    KEY_REQUESTS: MetricSpec("counter", "Requests by the names of keys.", ("key", "model_name")),
    KEY_TOKENS: MetricSpec("counter", "Tokens by the names of keys, by kind.", ("key", "model_name", "kind")),
    KEY_LIMITED: MetricSpec("counter", "Requests over the limits of named keys.", ("key", "bound")),
    "http_requests": MetricSpec("counter", "HTTP requests that ended.", ("handler", "method", "status")),
    IGNORED_FIELDS: MetricSpec("counter", "Unknown request fields that were ignored.", ("handler",)),
    "http_request_size_bytes": MetricSpec("summary", "Content-Length of requests.", ("handler",)),
    "http_response_size_bytes": MetricSpec(
        "summary", "Content-Length of responses; 0 for streams.", ("handler",)
    ),
    "http_request_duration_seconds": MetricSpec(
        "histogram", "Time of HTTP requests, by path.", ("handler", "method"), FEW_HTTP_BUCKETS_S
    ),
    "http_request_duration_highr_seconds": MetricSpec(
        "histogram", "Time of all HTTP requests, in many buckets.", (), HTTP_BUCKETS_S
    ),
    START_TIME: MetricSpec(
        "gauge",
        "Start time of the process since unix epoch in seconds.",
        ("process",),
        mode="liveall",
    ),
}
