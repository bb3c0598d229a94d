"""Counts recordings that became text."""

from __future__ import annotations

from pipelines.telemetry import deferred
from pipelines.telemetry.metric_names import AUDIO_SECONDS, REAL_TIME_FACTOR
from pipelines.telemetry.registry import labelled


def count_audio(model: str, audio_s: float, took_s: float) -> None:
    """A recording of `audio_s` seconds became text in `took_s`, from the request's first byte on."""
    deferred.gain(labelled(AUDIO_SECONDS, model), audio_s)
    deferred.histogram(REAL_TIME_FACTOR, model).add(took_s / max(audio_s, 0.01))
