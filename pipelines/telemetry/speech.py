"""Counts recordings and live speech that became text, and text that was spoken."""

from __future__ import annotations

from pipelines.telemetry import deferred
from pipelines.telemetry.metric_names import (
    AUDIO_SECONDS,
    REAL_TIME_FACTOR,
    SOCKETS,
    SPEECH_REAL_TIME_FACTOR,
    SPOKEN_SECONDS,
)
from pipelines.telemetry.registry import labelled


def count_audio(model: str, audio_s: float, took_s: float) -> None:
    """Sound of `audio_s` seconds became text in `took_s`: of a recording from the request's first byte on, of
    live speech the time of all readings.
    """
    deferred.gain(labelled(AUDIO_SECONDS, model), audio_s)
    deferred.histogram(REAL_TIME_FACTOR, model).add(took_s / max(audio_s, 0.01))


def count_sockets(change: int) -> None:
    """Sockets were opened or closed."""
    labelled(SOCKETS).inc(change)


def count_speech(model: str, sound_s: float, took_s: float) -> None:
    """A text became `sound_s` seconds of sound in `took_s`, from the request's first byte on."""
    deferred.gain(labelled(SPOKEN_SECONDS, model), sound_s)
    deferred.histogram(SPEECH_REAL_TIME_FACTOR, model).add(took_s / max(sound_s, 0.01))
