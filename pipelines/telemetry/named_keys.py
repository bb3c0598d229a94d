"""Counts the use of named API keys for `/metrics`; the use of all others is one label."""

from __future__ import annotations

from pipelines.telemetry import deferred
from pipelines.telemetry.metric_names import KEY_LIMITED, KEY_REQUESTS, KEY_TOKENS
from pipelines.telemetry.registry import labelled

OTHERS = "other"


def count_use(key: str | None, model: str, num_requests: int, prompt: int, cached: int, output: int) -> None:
    """A request of a key ended that used a model; `prompt` tokens with those of them that were `cached`."""
    name = key or OTHERS
    deferred.gain(labelled(KEY_REQUESTS, name, model), num_requests)
    for kind, amount in (("prompt", prompt), ("cached", cached), ("output", output)):
        deferred.gain(labelled(KEY_TOKENS, name, model, kind), amount)


def count_limited(key: str, bound: str) -> None:
    """A request was refused because its key had had its `bound`: requests or tokens."""
    deferred.gain(labelled(KEY_LIMITED, key, bound))
