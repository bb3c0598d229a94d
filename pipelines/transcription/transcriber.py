"""One recording through a model: its windows side by side or one after another, each tried until it is good.

Does not depend on HTTP fields or on the shape of replies.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

from pipelines.base.cancellation import ClientGone
from pipelines.base.errors import RequestError
from pipelines.nodes.speech.speech_prompt import SpeechPrompt
from pipelines.nodes.speech.window_text import (
    LEAST_STEP_S,
    TEMPERATURES,
    Transcription,
    WindowText,
    first_good,
)
from pipelines.nodes.speech.windows import SAMPLES_PER_S, Sound, Window, cut, window_at
from pipelines.nodes.speech.word_times import WordTimes
from pipelines.transcription.window_calls import TranscribedRequest, WindowCalls
from pipelines.values.reply_values import SpeechUpdate
from pipelines.values.tasks import SpeechInput
from pipelines.worker.call import Call
from pipelines.worker.engines.faces import RequestClient
from pipelines.worker.pipeline import Pipeline

NO_WORDS = "Word timestamps not supported for this model; allowed: segment.  Export it again for them"
SIDE_BY_SIDE = 8
"""Windows of one recording that are in the model at a time."""


class Transcriber:
    """Runs the calls of one request; all of them end with it.

    `route` gives the way to an engine for each window.  `speech` are the fields of `SpeechInput` that all
    windows share, `sampling` those of the client.
    `with_words`: segments get the times of their words.
    """

    def __init__(
        self,
        route: Callable[[], RequestClient],
        pipeline: Pipeline,
        request: TranscribedRequest,
        speech: dict[str, Any],
        sampling: dict[str, Any],
        with_words: bool = False,
    ) -> None:
        self._route = route
        self._pipeline = pipeline
        self._request = request
        self._speech = SpeechInput(**speech)
        self._sampling = sampling
        self._with_words = with_words
        self._places = asyncio.Semaphore(SIDE_BY_SIDE)

    async def detect(self, sound: Sound) -> str:
        """The language of a recording's first window."""
        with self._calls(cut(sound)[0]) as calls:
            await self._settle_language(calls)
        return "en" if self._speech.language is None else self._speech.language

    async def parallel(self, sound: Sound) -> Transcription:
        """All windows side by side, in the language of the first."""
        windows = [self._calls(window) for window in cut(sound)]
        if len(windows) > 1:
            await self._settle_language(windows[0])
        running = [asyncio.create_task(self._all(calls)) for calls in windows]
        try:
            return self._transcription(
                sound, [segment for texts in await asyncio.gather(*running) for segment in texts]
            )
        finally:
            for task in running:
                task.cancel()

    async def sequential(self, sound: Sound) -> Transcription:
        """Each window begins where the last whole segment of the one before it ends."""
        texts: list[WindowText] = []
        at_s = 0.0
        while (window := window_at(sound, at_s)) is not None:
            text = await self._best(self._calls(window))
            more = window_at(sound, at_s + window.duration_s) is not None
            if more and (text.continues_s or 0) >= LEAST_STEP_S:  # what has no end is read again
                assert text.continues_s is not None
                text.segments = [segment for segment in text.segments if segment.is_closed]
                text.text = "".join(segment.text for segment in text.segments)
                at_s += text.continues_s
            else:
                at_s += window.duration_s
            texts.append(text)
            if self._speech.language is None and text.language:
                self._speech = replace(self._speech, language=text.language)
        return self._transcription(sound, texts)

    async def stream(self, sound: Sound) -> AsyncIterator[tuple[WindowText, SpeechUpdate]]:
        """The updates of all windows in order, each after it was added to its window's text.

        What was sent is not taken back: each window is tried once.
        """
        windows = [self._calls(window) for window in cut(sound)]
        if len(windows) > 1:
            await self._settle_language(windows[0])
        opened: list[asyncio.Task[Call]] = []
        for i, calls in enumerate(windows):
            for window in windows[len(opened) : i + SIDE_BY_SIDE]:
                opened.append(asyncio.create_task(self._open(window, self._sampling)))
                self._request.at_end(opened[-1].cancel)
            text = WindowText(calls.window, self._temperature)
            with calls:
                async for update in _updates(await opened[i], text):
                    yield text, update

    def _calls(self, window: Window) -> WindowCalls:
        return WindowCalls(self._route(), self._pipeline, self._request, window)

    async def _settle_language(self, calls: WindowCalls) -> None:
        """From now on the language is the one that the request names, or that of this window."""
        if self._speech.language is None and languages_of(self._pipeline):
            text = await self._read(calls, {"max_tokens": 0, "temperature": 0.0})
            self._speech = replace(self._speech, language=text.language or "")

    @property
    def _temperature(self) -> float:
        given: float = self._sampling.get("temperature", 0.0)
        return given

    async def _all(self, calls: WindowCalls) -> list[WindowText]:
        """The texts of a window: where the model ends before the sound does, the rest is read too."""
        texts = [await self._best(calls)]
        while (rest := texts[-1].rest) is not None:
            texts.append(await self._best(self._calls(rest)))
        return texts

    async def _best(self, calls: WindowCalls) -> WindowText:
        """The text of the first attempt that is good, else of the last; of silence none."""
        temperatures = TEMPERATURES if not self._temperature else (self._temperature,)

        async def read(temperature: float) -> WindowText:
            return await self._read(calls, self._sampling | {"temperature": temperature})

        async with self._places:
            with calls:
                text = await first_good(read, temperatures)
                if text.is_silence:
                    text.text, text.segments = "", []
                if self._with_words and text.segments and text.words is not None:
                    text.take_words(await calls.value(text.words))
        return text

    async def _read(self, calls: WindowCalls, sampling: dict[str, Any]) -> WindowText:
        text = WindowText(calls.window, sampling.get("temperature", 0.0))
        async for _ in _updates(await self._open(calls, sampling), text):
            pass
        return text

    async def _open(self, calls: WindowCalls, sampling: dict[str, Any]) -> Call:
        return await calls.open(replace(self._speech, sampling={"temperature": 0.0} | sampling))

    def _transcription(self, sound: Sound, texts: list[WindowText]) -> Transcription:
        language = self._speech.language or next((each.language for each in texts if each.language), "en")
        duration_s = len(sound) / SAMPLES_PER_S
        return Transcription(duration_s, language, texts)


def check_words(pipeline: Pipeline) -> None:
    """Raise RequestError where the graph of a model does not find when each word was spoken."""
    if not any(isinstance(line.node, WordTimes) for line in pipeline.lines):
        raise RequestError(NO_WORDS, "timestamp_granularities[]")


def languages_of(pipeline: Pipeline) -> Sequence[str]:
    """The languages that a model of speech knows; none where it knows English only."""
    nodes = (line.node for line in pipeline.lines)
    known = [[*node.known.languages] for node in nodes if isinstance(node, SpeechPrompt)]
    return known[0] if known else []


async def _updates(call: Call, text: WindowText) -> AsyncIterator[SpeechUpdate]:
    """What a call gives, each update after it was added to the text."""
    async for batch in call.updates():
        text.num_prompt = len(call.prompt_ids[0])  # known once the encoder has run
        for _, update in batch:
            if update.piece.finish == "abort":  # of one window: the others are not wanted either
                raise RequestError("The request was cancelled.")
            text.add(update)
            yield update
    if not text.is_whole:
        raise ClientGone
