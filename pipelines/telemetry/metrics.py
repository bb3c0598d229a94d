"""Metrics of engines, under vLLM's names so that existing dashboards work.

Other code calls the functions here and never Prometheus.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from pipelines.telemetry.deferred import buffered
from pipelines.telemetry.engine_counts import Counts
from pipelines.telemetry.metric_names import (
    CACHE,
    DRAFT_TOKENS_BY_POSITION,
    DRAFTED,
    ENGINE_UP,
    EXPERT_CHOICES,
    EXPERT_GAUGES,
    LOAD_TIME,
    LOADED,
    LOADS,
    LORA,
    MODEL_BYTES,
    OF_ENGINE,
    PROGRESS,
    PROMPT_TOKENS_BY_SOURCE,
    STEP_TIME,
    STEPS,
    UNLOADS,
    WAITING_BY_REASON,
    CacheShape,
    LoraLoad,
)
from pipelines.telemetry.registry import labelled

_engine: tuple[str, int] | None = None
"""The label of this process among several engines, and how many they are; None for the only one."""


def engine_is_up(label: str, num_engines: int) -> None:
    """This process is one of several engines: each has metrics of its own besides those of all together."""
    global _engine
    _engine = label, num_engines
    labelled(ENGINE_UP, label).set(1)


def engine_progress(model: str, now: Counts, before: Counts | None) -> None:
    """Add what an engine's totals gained since `before` (None: since it was made)."""
    before = before or Counts()
    for name, total in (PROGRESS | DRAFTED if now.drafts else PROGRESS).items():
        labelled(name, model).inc(getattr(now, total) - getattr(before, total))
    if _engine is not None:
        for name in PROGRESS.keys() & OF_ENGINE.keys():
            gained = getattr(now, PROGRESS[name]) - getattr(before, PROGRESS[name])
            labelled(OF_ENGINE[name], model, _engine[0]).inc(gained)
    cached = now.prefix_hit_tokens - before.prefix_hit_tokens
    computed = now.prompt_tokens - before.prompt_tokens - cached
    for source, num_tokens in (("local_compute", computed), ("local_cache_hit", cached)):
        labelled(PROMPT_TOKENS_BY_SOURCE, model, source).inc(num_tokens)
    if now.routed_experts is not None:
        known = 0 if before.routed_experts is None else before.routed_experts.choices
        labelled(EXPERT_CHOICES, model).inc(now.routed_experts.choices - known)
        for name, value in zip(EXPERT_GAUGES, now.routed_experts[1:], strict=True):
            labelled(name, model).set(value)
    places = zip_longest(now.accepted_per_position, before.accepted_per_position, fillvalue=0)
    for place, (accepted, known) in enumerate(places):
        labelled(DRAFT_TOKENS_BY_POSITION, model, str(place)).inc(accepted - known)


def step(model: str, num_tokens: int) -> None:
    """An engine of a model computed `num_tokens` tokens in one step; `write_steps` writes it."""
    buffered("vllm:iteration_tokens_total", model).add(num_tokens)


def write_steps(model: str) -> None:
    """Write the steps of a model that `step` has counted.  The thread that calls this calls `step`."""
    buffered("vllm:iteration_tokens_total", model).flush()


def texts_ran(model: str, waits: Sequence[tuple[int, float]], took_s: float) -> None:
    """Texts were computed side by side in `took_s`; `waits` are (texts, how long they had waited before)."""
    num_texts = sum(num_waiting for num_waiting, _ in waits)
    queued = buffered("vllm:request_queue_time_seconds", model)
    for num_waiting, waited_s in waits:
        queued.add(waited_s, num_waiting)
    queued.flush()
    for name in ("vllm:request_prefill_time_seconds", "vllm:request_inference_time_seconds"):
        took = buffered(name, model)
        took.add(took_s, num_texts)
        took.flush()


def steps(model: str, kind: str, num_steps: int) -> None:
    """An engine of a model made `num_steps` more steps of a kind."""
    labelled(STEPS, model, kind).inc(num_steps)


def step_time(model: str, kind: str, phase: str, seconds: float) -> None:
    """A phase of an engine's steps of a kind took `seconds` more."""
    labelled(STEP_TIME, model, kind, phase).inc(seconds)


def cache_shape(model: str, shape: CacheShape, is_there: bool) -> None:
    """An engine of a model has a cache of this shape, or no longer.  One process per server calls this."""
    labelled(CACHE, model, *map(str, shape)).set(int(is_there))


def adapters(model: str, load: LoraLoad, before: LoraLoad | None) -> None:
    """Set which adapters of a model run and wait now: a time, as in vLLM, and 0 for those before."""
    if before is not None:
        labelled(LORA, model, *map(str, before)).set(0)
    labelled(LORA, model, *map(str, load)).set_to_current_time()


def engine_load(model: str, engines: Sequence[Counts]) -> None:
    """Set how busy the engines of a model are now.  One process for each engine of a server calls this.

    The library adds up what several processes set: of a part of the cache each sets its share of the mean.
    """
    blocks_total = sum(counts.blocks_total for counts in engines)
    host_total = sum(counts.host_blocks_total for counts in engines)
    waiting = sum(counts.waiting for counts in engines)
    numbers = {
        "vllm:num_requests_running": sum(counts.running for counts in engines),
        "vllm:num_requests_waiting": waiting,
        "vllm:num_requests_swapped": sum(counts.swapped for counts in engines),
    }
    parts = {
        "vllm:kv_cache_usage_perc": sum(counts.blocks_used for counts in engines) / max(1, blocks_total),
        "vllm:cpu_cache_usage_perc": sum(counts.host_blocks_used for counts in engines) / max(1, host_total),
    }
    label, num_engines = _engine or ("", 1)
    for name, number in numbers.items():
        labelled(name, model).set(number)
    for name, part in parts.items():
        labelled(name, model).set(part / num_engines)
    labelled(WAITING_BY_REASON, model, "capacity").set(waiting)
    if label:
        values = numbers | parts
        for name in values.keys() & OF_ENGINE.keys():
            labelled(OF_ENGINE[name], model, label).set(values[name])


def model_loaded(model: str, seconds: float, num_bytes: int) -> None:
    """A model was loaded and takes `num_bytes`.  One process per server calls this, and those below."""
    labelled(LOADED, model).set(1)
    labelled(MODEL_BYTES, model).set(num_bytes)
    labelled(LOADS, model, "loaded").inc()
    labelled(LOAD_TIME, model).observe(seconds)


def model_load_failed(model: str) -> None:
    labelled(LOADS, model, "failed").inc()


def model_retired(model: str, reason: str) -> None:
    """A model is to leave memory."""
    labelled(UNLOADS, model, reason).inc()


def model_gone(model: str) -> None:
    """No instance of a model is in memory any more."""
    labelled(LOADED, model).set(0)
    labelled(MODEL_BYTES, model).set(0)
