"""Metrics of requests and engines, under vLLM's names so that existing dashboards work.

Other code calls the functions here and never Prometheus.  With PROMETHEUS_MULTIPROC_DIR set, all processes of
a server write to that folder and any worker renders the sum.  The library is imported, and a metric made,
when its first value is written.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import zip_longest
from threading import Lock
from typing import TYPE_CHECKING, Any

from pipelines.telemetry.engine_counts import Counts
from pipelines.telemetry.histogram import HistogramBuffer
from pipelines.telemetry.metric_names import (
    CACHE,
    COUNTERS,
    DRAFT_TOKENS,
    DRAFT_TOKENS_BY_POSITION,
    DRAFTED,
    FINISHED,
    GAUGES,
    HISTOGRAMS,
    PROGRESS,
    RESIDENT,
    RESIDENT_PERIOD_S,
    STEP_TIME,
    STEPS,
    CacheShape,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class RequestTiming:
    """The clock of one request, started when it is made; each choice is timed on its own."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._start_s = self._sent_s = time.monotonic()
        self._first_s: dict[int, float] = {}
        self._last_s: dict[int, float] = {}
        self._num_tokens: dict[int, int] = {}
        self._prefill_s: dict[int, float] = {}
        self._text_lengths: Sequence[int] = ()

    def started(self, prompt_lengths: Sequence[int], n: int, max_tokens: int) -> None:
        """The request went to its engine."""
        self._sent_s = time.monotonic()
        for length in prompt_lengths:
            _observe("vllm:request_prompt_tokens", self._model, length)
        _observe("vllm:request_params_n", self._model, n)
        _observe("vllm:request_params_max_tokens", self._model, max_tokens)

    def read(self, text_lengths: Sequence[int]) -> None:
        """Inputs went to an engine that replies whole and needs the cores now: written when they end."""
        self._sent_s = time.monotonic()
        self._text_lengths = text_lengths

    def prefilled(self, choice: int, prefill_s: float) -> None:
        """The first token of a choice came `prefill_s` after the admission of its prompt."""
        self._prefill_s[choice] = prefill_s

    def tokens(self, choice: int, num_tokens: int) -> None:
        """`num_tokens` tokens of a choice reached the worker now; 0 is nothing."""
        if num_tokens < 1:
            return
        now_s = time.monotonic()
        if choice in self._first_s:
            gap_s = (now_s - self._last_s[choice]) / num_tokens
            _gaps(self._model).add(gap_s, now_s)
        else:
            self._first_s[choice] = now_s
            _observe("vllm:time_to_first_token_seconds", self._model, now_s - self._start_s)
        self._last_s[choice] = now_s
        self._num_tokens[choice] = self._num_tokens.get(choice, 0) + num_tokens

    def completed_later(self, num_choices: int, finish: str) -> None:
        """As `completed`, but written by the next `catch_up`: a client that waits does not wait for this."""
        _late.append(partial(self._add_completed, num_choices, finish, time.monotonic()))
        if len(_late) >= MOST_LATE:
            catch_up()

    def completed(self, num_choices: int, finish: str) -> None:
        """`num_choices` choices or inputs ended together, all with `finish`."""
        self._add_completed(num_choices, finish, time.monotonic())
        _flush_added()

    def _add_completed(self, num_choices: int, finish: str, now_s: float) -> None:
        process_memory("worker")
        _finished(self._model, finish).inc(num_choices)
        _added("vllm:e2e_request_latency_seconds", self._model).add(now_s - self._start_s, now_s, num_choices)
        if self._text_lengths:
            self._add_texts(now_s)

    def _add_texts(self, now_s: float) -> None:
        """Add the lengths of the inputs, once."""
        lengths = _added("vllm:request_prompt_tokens", self._model)
        for length in self._text_lengths:
            lengths.add(length, now_s)
        _added("vllm:request_params_n", self._model).add(1, now_s, len(self._text_lengths))
        self._text_lengths = ()

    def ended(self, choice: int, finish: str) -> None:
        """A choice ended with `finish`: "stop", "length", "repetition", "abort" or "error"."""
        _gaps(self._model).flush()
        self.completed(1, finish)
        num_tokens = self._num_tokens.get(choice, 0)
        if num_tokens:
            _observe("vllm:request_generation_tokens", self._model, num_tokens)
        later_tokens = num_tokens - 1
        if later_tokens > 0:
            mean_s = (self._last_s[choice] - self._first_s[choice]) / later_tokens
            _observe("vllm:request_time_per_output_token_seconds", self._model, mean_s)
        if num_tokens and choice in self._prefill_s:
            self._phases(choice, self._prefill_s[choice])

    def _phases(self, choice: int, prefill_s: float) -> None:
        """What comes before the prefill is waiting, and what comes after it decoding."""
        first_s = self._first_s[choice]
        decode_s = self._last_s[choice] - first_s
        _observe("vllm:request_queue_time_seconds", self._model, max(0, first_s - self._sent_s - prefill_s))
        _observe("vllm:request_prefill_time_seconds", self._model, prefill_s)
        _observe("vllm:request_decode_time_seconds", self._model, decode_s)
        _observe("vllm:request_inference_time_seconds", self._model, prefill_s + decode_s)


MOST_LATE = 64
"""Most ends of requests that are deferred."""
_late: deque[Callable[[], None]] = deque()
_unflushed: set[HistogramBuffer] = set()
"""Both belong to the thread of the worker's event loop."""


def catch_up() -> None:
    """Write what was deferred.  Call it periodically, before metrics are rendered, and at the end."""
    while _late:
        _late.popleft()()
    _flush_added()


def _added(name: str, model: str) -> HistogramBuffer:
    """A histogram to which values are added, for `_flush_added`."""
    observed = _observed(name, model)
    _unflushed.add(observed)
    return observed


def _flush_added() -> None:
    while _unflushed:
        _unflushed.pop().flush()


def engine_progress(model: str, now: Counts, before: Counts | None) -> None:
    """Add what an engine's totals gained since `before` (None: since it was made)."""
    before = before or Counts()
    for name, total in (PROGRESS | DRAFTED if now.drafts else PROGRESS).items():
        _child(name, model).inc(getattr(now, total) - getattr(before, total))
    places = zip_longest(now.accepted_per_position, before.accepted_per_position, fillvalue=0)
    for place, (accepted, known) in enumerate(places):
        _metric(DRAFT_TOKENS_BY_POSITION).labels(model, str(place)).inc(accepted - known)


def step(model: str, num_tokens: int) -> None:
    """An engine of a model computed `num_tokens` tokens in one step."""
    _observe("vllm:iteration_tokens_total", model, num_tokens)


def texts_ran(model: str, waits: Sequence[tuple[int, float]], took_s: float) -> None:
    """Texts were computed side by side in `took_s`; `waits` are (texts, how long they had waited before)."""
    now_s, num_texts = time.monotonic(), sum(num_waiting for num_waiting, _ in waits)
    queued = _observed("vllm:request_queue_time_seconds", model)
    for num_waiting, waited_s in waits:
        queued.add(waited_s, now_s, num_waiting)
    queued.flush()
    for name in ("vllm:request_prefill_time_seconds", "vllm:request_inference_time_seconds"):
        _observe_all(name, model, took_s, num_texts, now_s)


def steps(model: str, kind: str, num_steps: int) -> None:
    """An engine of a model made `num_steps` more steps of a kind."""
    _metric(STEPS).labels(model, kind).inc(num_steps)


def step_time(model: str, kind: str, phase: str, seconds: float) -> None:
    """A phase of an engine's steps of a kind took `seconds` more."""
    _metric(STEP_TIME).labels(model, kind, phase).inc(seconds)


def cache_shape(model: str, shape: CacheShape, is_there: bool) -> None:
    """An engine of a model has a cache of this shape, or no longer.  One process per server calls this."""
    _metric(CACHE).labels(model, *map(str, shape)).set(int(is_there))


def engine_load(model: str, engines: Sequence[Counts]) -> None:
    """Set how busy the engines of a model are now.  One process per server calls this."""
    blocks_total = sum(counts.blocks_total for counts in engines)
    _child("vllm:num_requests_running", model).set(sum(counts.running for counts in engines))
    _child("vllm:num_requests_waiting", model).set(sum(counts.waiting for counts in engines))
    used = sum(counts.blocks_used for counts in engines)
    _child("vllm:kv_cache_usage_perc", model).set(used / max(1, blocks_total))
    _child("vllm:num_requests_swapped", model).set(sum(counts.swapped for counts in engines))
    host_total = sum(counts.host_blocks_total for counts in engines)
    host_used = sum(counts.host_blocks_used for counts in engines)
    _child("vllm:cpu_cache_usage_perc", model).set(host_used / max(1, host_total))


def process_memory(process: str) -> None:
    """Set the memory of this process, as "host" or "worker"; at most once in RESIDENT_PERIOD_S."""
    now_s = time.monotonic()
    if now_s - _resident_at_s.get(process, -RESIDENT_PERIOD_S) >= RESIDENT_PERIOD_S:
        _resident_at_s[process] = now_s
        with _making:
            gauge = _resident().labels(process)
        gauge.set(_this_process().memory_info().rss)


_making = Lock()
"""Where a worker and the host are one process, both threads may make a metric at the same time."""
_resident_at_s: dict[str, float] = {}
"""When each was set last; a process is one of them, or both where there is only one."""


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
    if name == CACHE:
        text = "1 for each cache."
        return Gauge(
            name, text, [*labels, *CacheShape._fields], registry=registry, multiprocess_mode="livesum"
        )
    if name in GAUGES:
        return Gauge(name, GAUGES[name], labels, registry=registry, multiprocess_mode="livesum")
    if name in HISTOGRAMS:
        buckets, text = HISTOGRAMS[name]
        return Histogram(name, text, labels, registry=registry, buckets=buckets)
    if name == FINISHED:
        text = "Choices that ended, by the reason."
        return Counter(name, text, [*labels, "finished_reason"], registry=registry)
    if name == STEPS:
        return Counter(name, "Steps, by kind.", [*labels, "kind"], registry=registry)
    if name == STEP_TIME:
        return Counter(
            name, "Time of steps, by kind and phase.", [*labels, "kind", "phase"], registry=registry
        )
    if name == DRAFT_TOKENS_BY_POSITION:
        return Counter(
            name, "Draft tokens that were accepted, by place.", [*labels, "position"], registry=registry
        )
    return Counter(name, (COUNTERS | DRAFT_TOKENS)[name], labels, registry=registry)


@cache
def _child(name: str, model: str) -> Any:
    with _making:
        return _metric(name).labels(model)


def _gaps(model: str) -> HistogramBuffer:
    return _observed("vllm:inter_token_latency_seconds", model)


@cache
def _observed(name: str, model: str) -> HistogramBuffer:
    return HistogramBuffer(_child(name, model))


@cache
def _finished(model: str, finish: str) -> Any:
    return _metric(FINISHED).labels(model, finish)


@cache
def _resident() -> Any:
    from prometheus_client import Gauge

    text = "Memory that a process of this server holds, what it maps of files included."
    return Gauge(RESIDENT, text, ["process"], registry=_registry(), multiprocess_mode="liveall")


@cache
def _this_process() -> Any:
    import psutil

    return psutil.Process()


def _observe_all(name: str, model: str, value: float, times: int, now_s: float) -> None:
    """The same value `times` times."""
    observed = _observed(name, model)
    observed.add(value, now_s, times)
    observed.flush()


def _observe(name: str, model: str, value: float) -> None:
    _child(name, model).observe(value)
