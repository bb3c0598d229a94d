"""One window of an utterance through a model, with a place among the worker's requests while it lasts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial

from pipelines.base.errors import Overloaded
from pipelines.nodes.speech.window_text import WindowText
from pipelines.nodes.speech.windows import Sound
from pipelines.transcription.transcriber import Transcriber
from pipelines.worker.model_choice import SPEECH
from server.http.exchange import Exchange
from server.http.socket_exchange import SocketExchange
from server.services.model_lookup import find_pipeline
from server.services.services import Services

GREEDY = {"temperature": 0.0}


@dataclass(slots=True)
class SpeechChoice:
    """What a client chose for the text of its sound."""

    model: str | None = None
    language: str | None = None
    candidates: list[str] = field(default_factory=list)
    prompt: str = ""


@dataclass(slots=True)
class ReadingCost:
    """What all readings of an utterance took."""

    model: str = ""
    seconds: float = 0.0
    last_s: float = 0.0
    num_prompt: int = 0
    num_tokens: int = 0

    def add(self, model: str, seconds: float, text: WindowText) -> None:
        self.model, self.last_s = model, seconds
        self.seconds += seconds
        self.num_prompt += text.num_prompt
        self.num_tokens += text.num_tokens


class WindowReader:
    """Reads the windows of one utterance; a reading holds the model and a place only while it lasts."""

    def __init__(self, services: Services, socket: SocketExchange, choice: SpeechChoice) -> None:
        self.choice = choice
        self.cost = ReadingCost()
        self._services = services
        self._socket = socket

    async def attempt(
        self, sound: Sound, begins_with: str, previous: str, language: str | None
    ) -> WindowText | None:
        """One greedy reading; None where this worker has no place for it now."""
        try:
            return await self._read(sound, begins_with, previous, language, is_last=False)
        except Overloaded:
            return None

    async def finish(self, sound: Sound, begins_with: str, previous: str, language: str | None) -> WindowText:
        """The last reading of a window, tried until it is good.  Raises Overloaded."""
        return await self._read(sound, begins_with, previous, language, is_last=True)

    async def _read(
        self, sound: Sound, begins_with: str, previous: str, language: str | None, is_last: bool
    ) -> WindowText:
        services, started_s, part = self._services, time.monotonic(), self._socket.part()
        try:
            if is_last:
                services.enter(part)
            else:
                part.at_end(services.admission.enter(part.tenant))
            pipeline = await find_pipeline(services, part, self.choice.model, SPEECH)
            speech = {
                "language": language,
                "candidates": [] if language else self.choice.candidates,
                "previous_text": f"{self.choice.prompt} {previous}".strip(),
                "begins_with": begins_with,
            }
            transcriber = Transcriber(partial(services.route, part), pipeline, part, speech, {})
            text = await (self._last if is_last else self._first)(transcriber, sound)
        finally:
            part.close()
            services.requests.ended(part.trace)
        self.cost.add(pipeline.name, time.monotonic() - started_s, text)
        return text

    async def _first(self, transcriber: Transcriber, sound: Sound) -> WindowText:
        texts = [text async for text, _ in transcriber.stream(sound)]  # one text, which grows
        return texts[-1]

    async def _last(self, transcriber: Transcriber, sound: Sound) -> WindowText:
        (text,) = (await transcriber.parallel(sound)).windows
        return text


async def check_model(services: Services, socket: SocketExchange, model: str | None) -> str:
    """The name of the model that reads speech, loaded if it has to be.  Raises NotFound and others."""
    part: Exchange = socket.part()
    try:
        return (await find_pipeline(services, part, model, SPEECH)).name
    finally:
        part.close()
