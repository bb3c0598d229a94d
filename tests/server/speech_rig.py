"""An application around a scripted model of speech, and forms for it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from scripted import ScriptedCall, ScriptedPipeline, piece

from pipelines.base.errors import RequestError
from pipelines.nodes.speech.speech_prompt import SpeechPrompt
from pipelines.nodes.speech.whisper_tokens import WhisperTokens
from pipelines.nodes.speech.word_times import WordTimes
from pipelines.values.reply_values import Segment, SpeechUpdate

TRANSCRIPTIONS, TRANSLATIONS = "/v1/audio/transcriptions", "/v1/audio/translations"
BOUNDARY = "----7MA4YWxkTrZu0gW"


def heard(text: str = "", finish: str | None = None, segments: Any = (), **more: Any) -> SpeechUpdate:
    return SpeechUpdate(piece(finish=finish), text, list(segments), **more)


def segment(start_s: float, end_s: float, text: str, logprob: float = -0.25, closed: bool = True) -> Segment:
    return Segment(start_s, end_s, text, [7], [logprob], closed)


Script = Callable[[Any], list[SpeechUpdate]]


def fluent(request: Any) -> list[SpeechUpdate]:
    """Two words in one segment, in the language that was requested, else in German."""
    long_s = len(request.windows[0]) / 16_000
    return [
        heard(" Guten", language=request.language or "de", no_speech_prob=0.1),
        heard(" Tag", "stop", [segment(0, long_s, " Guten Tag")]),
    ]


class SpeechPipeline(ScriptedPipeline):
    """A model whose calls say what `script` gives for their request."""

    def __init__(self, script: Script = fluent, languages: tuple[str, ...] = ("de", "en")) -> None:
        super().__init__("transcribe")
        self.script = script
        prompt = SpeechPrompt(SpeechPrompt.Config(tokenizer="t", settings="s"), None)
        tasks = {"transcribe": 99, "translate": 98} if languages else {}
        prompt.known = WhisperTokens(90, 97, dict.fromkeys(languages, 95), tasks)
        words = WordTimes(WordTimes.Config(tokenizer="t", settings="s"), None)
        self.lines = [SimpleNamespace(node=prompt), SimpleNamespace(node=words)]
        self.num_read = 0  # how many windows' words were

    def prepare(
        self, generation: Any, client: Any, tenant: str = "", earlier: Any = None, trace: Any = None
    ) -> Any:
        self.batches = [[(0, update)] for update in self.script(generation)]
        call = super().prepare(generation, client, tenant, earlier)
        ids, call.prompt_ids = call.prompt_ids, []

        async def updates() -> Any:
            call.prompt_ids = ids  # as with an encoder before the prompt
            async for batch in ScriptedCall.updates(call):
                yield batch

        async def value(words: Any) -> Any:
            self.num_read += 1
            return words

        call.updates, call.value = updates, value
        return call

    @property
    def requests(self) -> list[Any]:
        return [call.generation for call in self.calls]


def recording(seconds: float = 1.0) -> bytes:
    return b"sound" + np.float32(seconds).tobytes()


def decoded(data: bytes, limits: Any) -> Any:
    """`recording` read back: so many seconds, loud but for a gap at 29.5 s."""
    if not data.startswith(b"sound"):
        raise RequestError("Invalid or unsupported audio file.", "file")
    sound = np.ones(round(float(np.frombuffer(data[5:9], np.float32)[0]) * 16_000), np.float32)
    sound[round(29.4 * 16_000) : round(29.6 * 16_000)] = 0
    return sound


def form(file: bytes | None = None, /, **fields: Any) -> tuple[bytes, dict[str, str]]:
    """A body and its headers; a name that ends with `[]` is written with `__`."""
    lines = []
    for name, value in fields.items():
        for value_there in value if isinstance(value, list) else [value]:
            name = name.replace("__", "[]")
            lines.append(
                f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value_there}\r\n'
            )
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n'
    body = "".join(lines).encode()
    if file is not None:
        body += head.encode() + b"Content-Type: audio/wav\r\n\r\n" + file + b"\r\n"
    return body + f"--{BOUNDARY}--\r\n".encode(), {
        "content_type": f"multipart/form-data; boundary={BOUNDARY}"
    }
