"""The text of a recording as a reply: JSON in several shapes, plain text, subtitles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from pipelines.nodes.speech.window_text import Transcription, WindowText, compression_ratio, mean_logprob
from server.schema.reply_models import Reply

FRAMES_PER_S = 100


class DurationUsage(Reply):
    """What was read: seconds of sound, rounded up."""

    type: Literal["duration"] = "duration"
    seconds: int


class TranscriptionReply(Reply):
    """`language` where only that was requested."""

    text: str
    language: str | None = None
    usage: DurationUsage


class TranslationReply(Reply):
    text: str


class PlainSegment(Reply):
    """A segment in OpenVINO Model Server's reply."""

    text: str
    start: float
    end: float


class TimedWord(Reply):
    """A word without spaces, with the punctuation beside it."""

    word: str
    start: float
    end: float


class SegmentedReply(Reply):
    text: str
    words: list[TimedWord] | None = None
    segments: list[PlainSegment] | None = None


class VerboseSegment(Reply):
    """A segment: `seek` is the beginning of its window in hundredths of a second; times are seconds."""

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


class VerboseReply(Reply):
    task: Literal["transcribe", "translate"]
    language: str
    duration: float
    text: str
    segments: list[VerboseSegment] | None = None
    words: list[TimedWord] | None = None
    usage: DurationUsage


class SpeechReply:
    """Writes the reply to one request; `translates`: the text is English, whatever was spoken.

    `granularities`: of what the client wants times, "segment" or "word"; without any, of segments.
    """

    def __init__(self, found: Transcription, translates: bool, granularities: Sequence[str] = ()) -> None:
        self._found = found
        self._translates = translates
        self._granularities = granularities

    @property
    def usage(self) -> DurationUsage:
        return duration_usage(self._found.duration_s)

    def json(self) -> bytes:
        if self._translates:
            return TranslationReply(text=self._found.text).to_json()
        return TranscriptionReply(text=self._found.text, usage=self.usage).to_json()

    def language(self) -> bytes:
        """The language, for a request that asks for it alone."""
        return TranscriptionReply(text="", language=self._found.language, usage=self.usage).to_json()

    def segmented(self) -> bytes:
        """JSON as OpenVINO Model Server writes it for a request with granularities."""
        more: dict[str, Any] = {}
        if "word" in self._granularities:
            more["words"] = list(self._words())
        if "segment" in self._granularities:
            more["segments"] = [
                PlainSegment(text=each.text, start=each.start, end=each.end) for each in self._segments()
            ]
        return SegmentedReply(text=self._found.text, **more).to_json()

    def verbose_json(self) -> bytes:
        wanted = self._granularities or ["segment"]
        return VerboseReply(
            task="translate" if self._translates else "transcribe",
            language="en" if self._translates else self._found.language,
            duration=round(self._found.duration_s, 3),
            text=self._found.text,
            segments=list(self._segments()) if "segment" in wanted else None,
            words=list(self._words()) if "word" in wanted else None,
            usage=self.usage,
        ).to_json()

    def text(self) -> bytes:
        return (self._found.text + "\n").encode()

    def srt(self) -> bytes:
        return "".join(
            f"{number}\n{_clock(each.start, ',')} --> {_clock(each.end, ',')}\n{each.text.strip()}\n\n"
            for number, each in enumerate(self._segments(), start=1)
        ).encode()

    def vtt(self) -> bytes:
        cues = "".join(
            f"{_clock(each.start, '.')} --> {_clock(each.end, '.')}\n{each.text.strip()}\n\n"
            for each in self._segments()
        )
        return f"WEBVTT\n\n{cues}".encode()

    def _segments(self) -> Iterator[VerboseSegment]:
        number = 0
        for window in self._found.windows:
            for segment in _of_window(window):
                segment.id, number = number, number + 1
                yield segment

    def _words(self) -> Iterator[TimedWord]:
        for window in self._found.windows:
            for word in [word for segment in window.segments for word in segment.words]:
                yield TimedWord(
                    word=word.text,
                    start=window.time_s(word.start_s),
                    end=window.time_s(word.end_s),
                )


PLAIN_TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
FORMATS: dict[str, tuple[str, Callable[[SpeechReply], bytes]]] = {
    "json": (JSON, SpeechReply.json),
    "verbose_json": (JSON, SpeechReply.verbose_json),
    "text": (PLAIN_TEXT, SpeechReply.text),
    "srt": (PLAIN_TEXT, SpeechReply.srt),
    "vtt": (PLAIN_TEXT, SpeechReply.vtt),
}
"""`response_format` → the type of the reply, and what writes it."""


def duration_usage(seconds: float) -> DurationUsage:
    return DurationUsage(type="duration", seconds=math.ceil(seconds))


def _of_window(text: WindowText) -> Iterator[VerboseSegment]:
    """The segments of a window, with times from the beginning of the recording."""
    for segment in text.segments:
        yield VerboseSegment(
            id=0,
            seek=round(text.window.start_s * FRAMES_PER_S),
            start=text.time_s(segment.start_s),
            end=text.time_s(segment.end_s),
            text=segment.text,
            tokens=segment.token_ids,
            temperature=text.temperature,
            avg_logprob=mean_logprob([segment]),
            compression_ratio=compression_ratio(segment.text),
            no_speech_prob=text.no_speech_prob,
        )


def _clock(seconds: float, point: str) -> str:
    """Hours, minutes, seconds and thousandths."""
    thousandths = round(seconds * 1000)
    minutes, rest = divmod(thousandths, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"
