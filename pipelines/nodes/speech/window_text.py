"""The text of a recording's windows, and whether the model is sure of it.

The measures are those of Whisper.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from pipelines.nodes.speech.windows import SAMPLES_PER_S, WINDOW_SAMPLES, Window
from pipelines.nodes.speech.words import WITHOUT_SPACES
from pipelines.values.reply_values import Segment, SpeechUpdate, SpokenWord
from pipelines.values.stream_values import Deferred

MAX_COMPRESSION = 2.4
"""Text that zlib makes smaller than this repeats itself."""
MIN_MEAN_LOGPROB = -1.0
"""The model is not sure of text below it."""
MIN_NO_SPEECH = 0.6
"""From this probability on, text of which the model is not sure is silence."""
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""A window whose text is not good is read again at the next of them, as in Whisper."""
LEAST_STEP_S = 1.0
"""How far the next window is from the one before it, at least."""


@dataclass(slots=True)
class WindowText:
    """The text of one window so far, and how sure the model is of it."""

    window: Window
    temperature: float = 0.0
    text: str = ""
    segments: list[Segment] = field(default_factory=list)
    language: str | None = None
    no_speech_prob: float = 0.0
    continues_s: float | None = None
    num_prompt: int = 0
    num_tokens: int = 0
    is_whole: bool = False
    words: Deferred[list[list[SpokenWord]]] | None = None

    def add(self, update: SpeechUpdate) -> None:
        self.text += update.text
        self.segments += update.segments
        self.language = update.language or self.language
        if update.no_speech_prob is not None:
            self.no_speech_prob = update.no_speech_prob
        self.continues_s = update.continues_s
        self.words = update.words or self.words
        self.num_tokens += update.piece.num_tokens
        self.is_whole |= update.piece.finish is not None

    def take_words(self, words: list[list[SpokenWord]]) -> None:
        for segment, own in zip(self.segments, words, strict=True):
            segment.words = own

    def time_s(self, seconds: float) -> float:
        """The time in the recording of one in the window, to hundredths of a second."""
        longest_s = min(self.window.duration_s, WINDOW_SAMPLES / SAMPLES_PER_S)
        return round(self.window.start_s + min(seconds, longest_s), 2)

    @property
    def rest(self) -> Window | None:
        """What comes after the last segment, where the model said that something does."""
        if self.continues_s is None or not (self.segments and self.segments[-1].is_closed):
            return None
        rest = self.window.sound[round(self.continues_s * SAMPLES_PER_S) :]
        if self.continues_s < LEAST_STEP_S or len(rest) < LEAST_STEP_S * SAMPLES_PER_S:
            return None
        return Window(self.window.start_s + self.continues_s, rest)

    @property
    def is_unsure(self) -> bool:
        return mean_logprob(self.segments) < MIN_MEAN_LOGPROB

    @property
    def is_silence(self) -> bool:
        return self.is_unsure and self.no_speech_prob > MIN_NO_SPEECH

    @property
    def is_good(self) -> bool:
        return self.is_silence or not (self.is_unsure or compression_ratio(self.text) > MAX_COMPRESSION)


async def first_good(
    read: Callable[[float], Awaitable[WindowText]], temperatures: Sequence[float] = TEMPERATURES
) -> WindowText:
    """The first text that is good, else the last: `read` gives the one at a temperature."""
    for temperature in temperatures:
        text = await read(temperature)
        if text.is_good:
            break
    return text


@dataclass(slots=True)
class Transcription:
    """The text of a recording of `duration_s` seconds, in its windows."""

    duration_s: float
    language: str
    windows: list[WindowText]

    @property
    def text(self) -> str:
        return joiner(self.language).join(part for each in self.windows if (part := each.text.strip()))

    @property
    def num_tokens(self) -> int:
        return sum(each.num_tokens for each in self.windows)


def mean_logprob(segments: Sequence[Segment]) -> float:
    """The mean log-probability of all tokens of the segments; 0 without any."""
    values = [logprob for segment in segments for logprob in segment.logprobs]
    return sum(values) / len(values) if values else 0.0


def compression_ratio(text: str) -> float:
    data = text.encode()
    return len(data) / len(zlib.compress(data))


def joiner(language: str) -> str:
    """What stands between the texts of two windows."""
    return "" if language in WITHOUT_SPACES else " "
