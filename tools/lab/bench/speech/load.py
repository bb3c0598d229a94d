"""The load that every system runs, through a pipe or over HTTP, and its timings.

Pure, and of the standard library alone, since peers read it in environments of their own.
"""

from __future__ import annotations

import json
import time
import wave
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tools.client.form_data import HEADERS, form_data
from tools.client.http_client import local_client

MAX_TOKENS = 440
"""Tokens of one clip's text; libraries default to more than they hold, or to fewer than speech has."""


@dataclass(frozen=True)
class Load:
    """`clips` are paths of WAV files, 16 kHz mono of 16 bits, at most `at_once` of them in flight."""

    clips: list[str]
    at_once: int

    @property
    def groups(self) -> list[list[str]]:
        """What a caller who holds several clips hands over together."""
        starts = range(0, len(self.clips), self.at_once)
        return [self.clips[start : start + self.at_once] for start in starts]


class Timings(NamedTuple):
    """Seconds of all clips together, and the text of each."""

    wall_s: float
    texts: list[str]


Transcribe = Callable[[list[str]], list[str]]
"""Paths of clips → their texts, computed together."""


def run_library(load: Load, transcribe: Transcribe) -> Timings:
    """One group after the other, each in one call."""
    begin = time.perf_counter()
    texts = [text for group in load.groups for text in transcribe(group)]
    return Timings(time.perf_counter() - begin, texts)


def run_server(load: Load, port: int, model: str) -> Timings:
    """A request for each clip, `at_once` threads."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(load.at_once) as threads:
        texts = list(threads.map(lambda clip: _post(clip, port, model), load.clips))
    return Timings(time.perf_counter() - begin, texts)


def _post(clip: str, port: int, model: str) -> str:
    """POST /v1/audio/transcriptions.  Raises RequestFailed."""
    body = form_data({"model": model}, "clip.wav", Path(clip).read_bytes())
    with local_client(port).reply("POST", "/v1/audio/transcriptions", body, HEADERS) as reply:
        return str(json.load(reply)["text"])


def read_samples(clip: str) -> bytes:
    """The 16-bit samples of a clip."""
    with wave.open(clip) as file:
        return file.readframes(file.getnframes())
