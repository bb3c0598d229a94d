"""Named numbers about requests and engines, under vLLM's names so that existing dashboards work.

Code of ours calls the functions here and never Prometheus.  With PROMETHEUS_MULTIPROC_DIR set, all processes
of a server write to that folder and any worker renders the sum.  Knows nothing of HTTP, text or scheduling.
The library is imported, and a metric made, when the first number is written.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from pipelines.engine.counts import Counts

_SUBSECOND_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75)
FIRST_TOKEN_BUCKETS_S = (*_SUBSECOND_S, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560)
_FRACTIONS_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75)
TOKEN_BUCKETS_S = (*_FRACTIONS_S, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_FEW_S = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5)
REQUEST_BUCKETS_S = (*_FEW_S, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)

_DIGITS = (1, 2, 5)
NUM_TOKENS_BUCKETS = tuple(digit * 10**power for power in range(6) for digit in _DIGITS)
NUM_CHOICES_BUCKETS = (*_DIGITS, 10, 20)

GAUGES = {
    "vllm:num_requests_running": "Sequences that take part in steps.",
    "vllm:num_requests_waiting": "Sequences that wait for a first or another turn.",
    "vllm:kv_cache_usage_perc": "Part of the cache blocks in use, 0 to 1.",
    "vllm:num_requests_swapped": "Waiting sequences whose blocks lie in host memory.",
    "vllm:cpu_cache_usage_perc": "Part of the host blocks for swapping in use, 0 to 1.",
}
COUNTERS = {
    "vllm:num_preemptions": "Sequences set back because blocks ran out.",
    "braid:swapped_out_blocks": "Cache blocks moved to host memory.",
    "braid:swapped_in_blocks": "Cache blocks moved back from host memory.",
    "vllm:prompt_tokens": "Prompt tokens computed or found in the prefix cache.",
    "vllm:generation_tokens": "Tokens generated.",
    "vllm:prefix_cache_queries": "Prompt tokens looked up in the prefix cache.",
    "vllm:prefix_cache_hits": "Prompt tokens found in the prefix cache.",
}
HISTOGRAMS = {
    "vllm:time_to_first_token_seconds": (FIRST_TOKEN_BUCKETS_S, "From arrival to a choice's first token."),
    "vllm:inter_token_latency_seconds": (TOKEN_BUCKETS_S, "Between tokens of a choice, at the worker."),
    "vllm:request_time_per_output_token_seconds": (TOKEN_BUCKETS_S, "Mean of a choice, without its first."),
    "vllm:e2e_request_latency_seconds": (REQUEST_BUCKETS_S, "From arrival to a choice's end."),
    "vllm:request_prompt_tokens": (NUM_TOKENS_BUCKETS, "Tokens of a prompt."),
    "vllm:request_generation_tokens": (NUM_TOKENS_BUCKETS, "Tokens of a choice that had any."),
    "vllm:request_params_n": (NUM_CHOICES_BUCKETS, "Choices that a request asks for, for each prompt."),
    "vllm:request_params_max_tokens": (NUM_TOKENS_BUCKETS, "Most tokens that a choice may have."),
}
FINISHED = "vllm:request_success"

_PROGRESS = {
    "vllm:num_preemptions": "preemptions",
    "braid:swapped_out_blocks": "swapped_out_blocks",
    "braid:swapped_in_blocks": "swapped_in_blocks",
    "vllm:prompt_tokens": "prompt_tokens",
    "vllm:generation_tokens": "output_tokens",
    "vllm:prefix_cache_queries": "prefix_query_tokens",
    "vllm:prefix_cache_hits": "prefix_hit_tokens",
}
"""Which total of an engine's Counts each counter follows."""


class RequestTiming:
    """The clock of one request, started when it is made; each choice is timed on its own."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._start_s = time.monotonic()
        self._first_s: dict[int, float] = {}
        self._last_s: dict[int, float] = {}
        self._num_tokens: dict[int, int] = {}

    def started(self, prompt_lengths: Sequence[int], n: int, max_tokens: int) -> None:
        """The request went to its engine."""
        for length in prompt_lengths:
            _observe("vllm:request_prompt_tokens", self._model, length)
        _observe("vllm:request_params_n", self._model, n)
        _observe("vllm:request_params_max_tokens", self._model, max_tokens)

    def tokens(self, choice: int, num_tokens: int) -> None:
        """`num_tokens` tokens of a choice reached the worker now; 0 is nothing."""
        if num_tokens < 1:
            return
        now_s = time.monotonic()
        if choice in self._first_s:
            gap_s = (now_s - self._last_s[choice]) / num_tokens
            _observe("vllm:inter_token_latency_seconds", self._model, gap_s)
        else:
            self._first_s[choice] = now_s
            _observe("vllm:time_to_first_token_seconds", self._model, now_s - self._start_s)
        self._last_s[choice] = now_s
        self._num_tokens[choice] = self._num_tokens.get(choice, 0) + num_tokens

    def ended(self, choice: int, finish: str) -> None:
        """A choice ended with `finish`: "stop", "length", "repetition", "abort" or "error"."""
        now_s = time.monotonic()
        _finished(self._model, finish).inc()
        _observe("vllm:e2e_request_latency_seconds", self._model, now_s - self._start_s)
        num_tokens = self._num_tokens.get(choice, 0)
        if num_tokens:
            _observe("vllm:request_generation_tokens", self._model, num_tokens)
        later_tokens = num_tokens - 1
        if later_tokens > 0:
            mean_s = (self._last_s[choice] - self._first_s[choice]) / later_tokens
            _observe("vllm:request_time_per_output_token_seconds", self._model, mean_s)


def engine_progress(model: str, now: Counts, before: Counts | None) -> None:
    """Add what an engine's totals gained since `before` (None: since it was made)."""
    for name, total in _PROGRESS.items():
        gained = getattr(now, total) - (getattr(before, total) if before is not None else 0)
        _child(name, model).inc(gained)


def engine_load(model: str, engines: Sequence[Counts]) -> None:
    """Say how busy the engines of a model are now.  One process per server calls this."""
    blocks_total = sum(counts.blocks_total for counts in engines)
    _child("vllm:num_requests_running", model).set(sum(counts.running for counts in engines))
    _child("vllm:num_requests_waiting", model).set(sum(counts.waiting for counts in engines))
    used = sum(counts.blocks_used for counts in engines)
    _child("vllm:kv_cache_usage_perc", model).set(used / max(1, blocks_total))
    _child("vllm:num_requests_swapped", model).set(sum(counts.swapped for counts in engines))
    host_total = sum(counts.host_blocks_total for counts in engines)
    host_used = sum(counts.host_blocks_used for counts in engines)
    _child("vllm:cpu_cache_usage_perc", model).set(host_used / max(1, host_total))


def render() -> bytes:
    """The Prometheus text exposition, of all processes of this server."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector

    if not _multiprocess():
        return generate_latest(_registry())
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


def mark_dead(pid: int) -> None:
    """A process ended: its gauges no longer count, its totals stay."""
    if _multiprocess():
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(pid)  # type: ignore[no-untyped-call]


@cache
def _multiprocess() -> bool:
    """Whether the library shares its values; it decides when it is imported, by the environment."""
    from prometheus_client import values

    return values.ValueClass is not values.MutexValue


@cache
def _registry() -> CollectorRegistry:
    from prometheus_client import CollectorRegistry

    return CollectorRegistry()


@cache
def _metric(name: str) -> Any:
    from prometheus_client import Counter, Gauge, Histogram

    labels, registry = ["model_name"], _registry()
    if name in GAUGES:
        return Gauge(name, GAUGES[name], labels, registry=registry, multiprocess_mode="livesum")
    if name in HISTOGRAMS:
        buckets, text = HISTOGRAMS[name]
        return Histogram(name, text, labels, registry=registry, buckets=buckets)
    if name == FINISHED:
        text = "Choices that ended, by the reason."
        return Counter(name, text, [*labels, "finished_reason"], registry=registry)
    return Counter(name, COUNTERS[name], labels, registry=registry)


@cache
def _child(name: str, model: str) -> Any:
    return _metric(name).labels(model)


@cache
def _finished(model: str, finish: str) -> Any:
    return _metric(FINISHED).labels(model, finish)


def _observe(name: str, model: str, value: float) -> None:
    _child(name, model).observe(value)
