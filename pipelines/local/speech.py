"""Recordings → texts from Python."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from msgspec.structs import replace

from pipelines.local.engine import LocalEngine, LocalRequest
from pipelines.local.replies import Transcript
from pipelines.nodes.audio.decoding import AudioLimits, decode_audio
from pipelines.nodes.speech.window_text import WindowText
from pipelines.nodes.speech.windows import Sound
from pipelines.requests.speech.request import SpeechRequest
from pipelines.transcription.transcriber import Transcriber, check_words
from pipelines.values.reply_values import Segment
from pipelines.worker.model_choice import SPEECH

Recording = str | PathLike[str] | bytes | Sound
"""A file of sound by its path or in bytes, or samples: float32[samples] of one channel, 16,000 a second."""
LIMITS = AudioLimits(max_seconds=24 * 3600, deadline_s=3600)


async def transcript_of(engine: LocalEngine, body: SpeechRequest, recording: Recording) -> Transcript:
    """Raises BraidError, and OSError for a file that cannot be read."""
    with LocalRequest() as request:
        pipeline = await engine.find(body.model, SPEECH, request)
        with_words = "word" in body.granularities
        if with_words:
            check_words(pipeline)
        sound = await asyncio.to_thread(samples_of, recording)
        transcriber = Transcriber(
            lambda: engine.client, pipeline, request, body.speech(), body.sampling(), with_words
        )
        text = await (transcriber.sequential if body.sequential else transcriber.parallel)(sound)
        segments = (segment for window in text.windows for segment in _segments(window))
        timed = tuple(segments) if body.needs_segments else ()
        return Transcript(text.text, text.language, text.duration_s, timed)


def samples_of(recording: Recording) -> Sound:
    """Raises RequestError for what is no sound."""
    if isinstance(recording, str | PathLike):
        recording = Path(recording).read_bytes()
    return decode_audio(recording, LIMITS) if isinstance(recording, bytes) else recording


def _segments(window: WindowText) -> Iterator[Segment]:
    """The segments of a window with times from the beginning of the recording."""
    for segment in window.segments:
        words = [
            word._replace(start_s=window.time_s(word.start_s), end_s=window.time_s(word.end_s))
            for word in segment.words
        ]
        start_s, end_s = window.time_s(segment.start_s), window.time_s(segment.end_s)
        yield replace(segment, start_s=start_s, end_s=end_s, words=words)
