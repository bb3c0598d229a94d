"""One recording through a model: its windows side by side or one after another, each tried until it is good.

Does not depend on HTTP fields or on the shape of replies.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from pipelines.nodes.speech.speech_prompt import SpeechPrompt
from pipelines.tasks import SpeechInput
from pipelines.values import SpeechUpdate
from pipelines.worker.call import Call
from pipelines.worker.pipeline import Pipeline
from server.http.exchange import LONG_BODY_BYTES, ClientGone, Exchange
from server.services import Services
from server.speech.window_text import LEAST_STEP_S, Transcription, WindowText
from server.speech.windows import SAMPLES_PER_S, Sound, Window, cut, window_at

TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""A window whose text is not good is tried again at the next of them, as in Whisper."""
SIDE_BY_SIDE = 8
"""Windows of one recording that are in the model at a time."""


class Transcriber:
    """Runs the calls of one request; all of them end with its exchange.

    `speech` are the fields of `SpeechInput` that all windows share, `sampling` those of the client.
    """

    def __init__(
        self,
        services: Services,
        pipeline: Pipeline,
        exchange: Exchange,
        speech: dict[str, Any],
        sampling: dict[str, Any],
    ) -> None:
        self._services = services
        self._pipeline = pipeline
        self._exchange = exchange
        self._request = SpeechInput(**speech)
        self._sampling = sampling
        self._places = asyncio.Semaphore(SIDE_BY_SIDE)

    async def detect(self, sound: Sound) -> str:
        """The language of a recording's first window."""
        known = languages_of(self._pipeline)
        if self._request.language or not known:
            return self._request.language or "en"
        text = await self._read(cut(sound)[0], {"max_tokens": 0, "temperature": 0.0})
        return text.language or ""

    async def parallel(self, sound: Sound) -> Transcription:
        """All windows side by side, in the language of the first."""
        windows = cut(sound)
        if len(windows) > 1:
            await self._settle_language(sound)
        running = [asyncio.create_task(self._all(window)) for window in windows]
        try:
            return self._transcription(
                sound, [each for texts in await asyncio.gather(*running) for each in texts]
            )
        finally:
            for each in running:
                each.cancel()

    async def sequential(self, sound: Sound) -> Transcription:
        """Each window begins where the last whole segment of the one before it ends."""
        texts: list[WindowText] = []
        at_s = 0.0
        while (window := window_at(sound, at_s)) is not None:
            text = await self._best(window)
            more = window_at(sound, at_s + window.duration_s) is not None
            if more and (text.continues_s or 0) >= LEAST_STEP_S:  # what has no end is read again
                assert text.continues_s is not None
                text.segments = [each for each in text.segments if each.is_closed]
                text.text = "".join(each.text for each in text.segments)
                at_s += text.continues_s
            else:
                at_s += window.duration_s
            texts.append(text)
            if self._request.language is None and text.language:
                self._request = replace(self._request, language=text.language)
        return self._transcription(sound, texts)

    async def stream(self, sound: Sound) -> AsyncIterator[tuple[WindowText, SpeechUpdate]]:
        """The updates of all windows in order, each after it was added to its window's text.

        What was sent is not taken back: each window is tried once.
        """
        windows = cut(sound)
        if len(windows) > 1:
            await self._settle_language(sound)
        calls = [asyncio.create_task(self._open(window, self._sampling)) for window in windows[:SIDE_BY_SIDE]]
        for task in calls:
            self._exchange.at_end(task.cancel)
        for i, window in enumerate(windows):
            if len(calls) < len(windows):
                calls.append(asyncio.create_task(self._open(windows[len(calls)], self._sampling)))
                self._exchange.at_end(calls[-1].cancel)
            text = WindowText(window, self._temperature)
            async for update in self._updates(await calls[i], text):
                yield text, update

    async def _settle_language(self, sound: Sound) -> None:
        if self._request.language is None and languages_of(self._pipeline):
            self._request = replace(self._request, language=await self.detect(sound))

    @property
    def _temperature(self) -> float:
        given: float = self._sampling.get("temperature", 0.0)
        return given

    async def _all(self, window: Window) -> list[WindowText]:
        """The texts of a window: where the model ends before the sound does, the rest is read too."""
        texts = [await self._best(window)]
        while (rest := texts[-1].rest) is not None:
            texts.append(await self._best(rest))
        return texts

    async def _best(self, window: Window) -> WindowText:
        """The text of the first attempt that is good, else of the last; of silence none."""
        temperatures = TEMPERATURES if not self._temperature else (self._temperature,)
        async with self._places:
            for each in temperatures:
                text = await self._read(window, self._sampling | {"temperature": each})
                if text.is_good:
                    break
        if text.is_silence:
            text.text, text.segments = "", []
        return text

    async def _read(self, window: Window, sampling: dict[str, Any]) -> WindowText:
        text = WindowText(window, sampling.get("temperature", 0.0))
        async for _ in self._updates(await self._open(window, sampling), text):
            pass
        return text

    async def _open(self, window: Window, sampling: dict[str, Any]) -> Call:
        """A call that has begun; its sound becomes features off the event loop."""
        request = replace(self._request, windows=[window.sound], sampling={"temperature": 0.0} | sampling)
        services, exchange = self._services, self._exchange
        call = await exchange.off_loop(
            lambda: self._pipeline.prepare(request, services.client, exchange.tenant),
            max(window.sound.nbytes, LONG_BODY_BYTES + 1),
        )
        exchange.at_end(call.close)
        exchange.when_gone(call.close)
        call.start()
        return call

    async def _updates(self, call: Call, text: WindowText) -> AsyncIterator[SpeechUpdate]:
        try:
            async for batch in call.updates():
                text.num_prompt = len(call.prompt_ids[0])  # known once the encoder has run
                for _, update in batch:
                    text.add(update)
                    yield update
        finally:
            call.close()
        if not text.is_whole:
            raise ClientGone

    def _transcription(self, sound: Sound, texts: list[WindowText]) -> Transcription:
        language = self._request.language or next((each.language for each in texts if each.language), "en")
        duration_s = len(sound) / SAMPLES_PER_S
        return Transcription(duration_s, language, texts)


def languages_of(pipeline: Pipeline) -> Sequence[str]:
    """The languages that a model of speech knows; none where it knows English only."""
    nodes = (line.node for line in pipeline.lines)
    known = [[*node.known.languages] for node in nodes if isinstance(node, SpeechPrompt)]
    return known[0] if known else []
