"""The transcribe node: the sounds of a conversation become text, by a model that reads speech."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field

from graphs.graph import Graph, PortsBySettings
from graphs.node import Node, NodeConfig, Port
from pipelines.base.errors import RequestError
from pipelines.nodes.audio.decoding import RATE, Samples, decoded_sound
from pipelines.nodes.interface import Composer, Composing
from pipelines.nodes.naming import NamesOne, task_of
from pipelines.nodes.speech.window_text import WindowText, first_good, joiner
from pipelines.nodes.speech.windows import Window, cut
from pipelines.values.tasks import GenerationInput, SoundInput, SpeechInput

NO_SPEECH = "there is no speech in the sound"


class Transcribe(NamesOne, Node, PortsBySettings, Composing):
    """Makes a chat request of the client's own: each sound of its messages is replaced by what is said in it.

    A line below answers it, such as `graph`, `choose` or `guard`; `ask` and `find` read it as they read the
    request. Sounds are `input_audio` parts of messages, and what is said in `/v1/realtime`. A request without
    sounds stays as it is. Parts in which nothing is said are left out.
    """

    class Config(NodeConfig):
        graph: str = Field(description="name of a model of the repository that transcribes speech")
        language: str | None = Field(
            default=None, description="ISO 639-1 code of what is spoken; default: detected"
        )
        prompt: str = Field(default="", description="words to expect")
        max_sounds: int = Field(default=32, ge=1, description="sounds of one request; more are a 400")
        max_mb: float = Field(default=25, gt=0, description="MB of a sound file; a larger one is a 400")
        max_seconds: float = Field(
            default=600, gt=0, description="seconds of all sounds of a request together; more are a 400"
        )

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """The graph that is named must be there, and transcribe."""
        task_of(graph, config.graph, ("transcribe",), "graph")
        return {"request": Port(GenerationInput, optional=False)}, GenerationInput

    async def compose(self, call: Composer, request: GenerationInput) -> GenerationInput:
        if not request.sounds:
            return request
        if len(request.sounds) > self.config.max_sounds:
            where = request.sounds[self.config.max_sounds].where
            raise RequestError(f"at most {self.config.max_sounds} sounds may be in one request", where)
        recordings = await asyncio.to_thread(lambda: [*self._decoded(request.sounds)])
        texts = []
        for sound, samples in zip(request.sounds, recordings, strict=True):
            texts.append(await self._text(call, samples))
            call.hear(sound.where, texts[-1])
        messages = [*_with_texts(request.messages or [], iter(texts))]
        if not messages or messages[-1].get("role") == "assistant":
            raise RequestError(NO_SPEECH, request.sounds[-1].where)
        return replace(request, messages=messages, sounds=[])

    def _decoded(self, sounds: list[SoundInput]) -> Iterator[Samples]:
        """The samples of each sound.  Raises RequestError."""
        left_s = self.config.max_seconds
        for sound in sounds:
            samples = decoded_sound(sound, int(self.config.max_mb * 1e6), left_s, self.config.max_seconds)
            left_s -= len(samples) / RATE
            yield samples

    async def _text(self, call: Composer, samples: Samples) -> str:
        """What is said in a recording; windows of it are read in turn."""
        texts: list[str] = []
        language = self.config.language
        for window in cut(samples):
            text = await self._read(call, window, language, " ".join(texts))
            language = language or text.language
            if not text.is_silence and (said := text.text.strip()):
                texts.append(said)
        return joiner(language or "").join(texts)

    async def _read(self, call: Composer, window: Window, language: str | None, previous: str) -> WindowText:
        """The text of one window: the first attempt that is good, else the last."""

        async def attempt(temperature: float) -> WindowText:
            text = WindowText(window, temperature)
            request = SpeechInput(
                windows=[window.sound],
                language=language,
                previous_text=f"{self.config.prompt} {previous}".strip(),
                sampling={"temperature": temperature},
            )
            asked = await call.ask(self.named_graph(), request)
            async for batch in asked.updates():
                for _, update in batch:
                    text.add(update)
            return text

        return await first_good(attempt)


def _with_texts(messages: list[dict[str, Any]], texts: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The messages with a text in place of each sound; those without any content are left out."""
    for message in messages:
        content = message.get("content")
        if not isinstance(content, list) or not any(part.get("type") == "audio" for part in content):
            yield message
            continue
        parts = [
            {"type": "text", "text": next(texts)} if part.get("type") == "audio" else part for part in content
        ]
        said = [part for part in parts if part.get("type") != "text" or part["text"].strip()]
        if all(part.get("type") == "text" for part in said):
            text = "\n".join(part["text"] for part in said)
            said_content: Any = text
        else:
            said_content = said
        if said_content:
            yield {**message, "content": said_content}
