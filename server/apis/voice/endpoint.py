"""POST audio/speech: a text → sound, sent while it is made."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import falcon.asgi

from pipelines.base.cancellation import ClientGone
from pipelines.nodes.voice.phonemes import Phonemes
from pipelines.nodes.voice.voice_settings import VoiceSettings
from pipelines.telemetry.speech import count_speech
from pipelines.values.tasks import SpeakInput
from pipelines.worker.call import Call
from pipelines.worker.model_choice import Ability
from pipelines.worker.pipeline import Pipeline
from server.apis.voice.encoders import FORMATS, SoundEncoder, open_encoder, wav_header
from server.apis.voice.events import end_event, sound_event
from server.apis.voice.request import SpeakRequest
from server.dialects import OVMS
from server.http.errors import public_error
from server.http.exchange import Exchange
from server.http.request_body import parse
from server.http.streaming import as_stream, first_piece, kept_alive, next_piece
from server.schema.sse import error_events
from server.services.model_lookup import find_pipeline
from server.services.services import Services

SPEAKING = Ability(("speak",), "speak")
VOICE = "X-Braid-Voice"
"""The header that says which voice speaks: OpenAI's names mean the model's own."""


@dataclass(slots=True)
class Speech:
    """One text that is spoken: its pieces of a sound file, and what was made so far."""

    call: Call
    encoder: SoundEncoder
    exchange: Exchange
    model: str
    num_phonemes: int
    sound_s: float = field(default=0.0)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The file, a piece for each sentence and for its end.  Raises ClientGone."""
        async for sound in self.call.parts():
            self.sound_s += len(sound.samples) / sound.rate
            yield await self.exchange.long_work(
                partial(self.encoder.add, sound.samples), sound.samples.nbytes
            )
        if self.exchange.is_gone:
            raise ClientGone
        yield await self.exchange.long_work(self.encoder.end)
        count_speech(self.model, self.sound_s, time.monotonic() - self.exchange.started_s)


class SpeechEndpoint:
    """A text → sound in one of several formats, sentence by sentence."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        raw, dialect = await services.admit(req), exchange.dialect
        request = await exchange.off_loop(
            lambda: parse(SpeakRequest, dialect.transform_body("speech", raw)), len(raw)
        )
        pipeline = await find_pipeline(services, exchange, request.model, SPEAKING)
        settings = settings_of(pipeline)
        voice, form = settings.voice(request.voice_name), request.response_format or "mp3"
        encoder = open_encoder(form, settings.rate)
        call = await self._call(request, voice, pipeline, exchange)
        speech = Speech(call, encoder, exchange, pipeline.name, sum(call.prompt_lengths))
        resp.set_header(VOICE, voice)
        if request.stream_format == "sse":
            as_stream(resp, kept_alive(exchange, await self._events(speech)))
            return
        resp.content_type = FORMATS[form].content_type
        if dialect is OVMS and request.stream_format is None:
            resp.data = await self._whole(speech, form, settings.rate)
        else:
            resp.stream = await self._sound(speech)

    async def _call(self, request: SpeakRequest, voice: str, pipeline: Pipeline, exchange: Exchange) -> Call:
        """A call that has begun; the phonemes are found off the event loop."""
        spoken = SpeakInput(request.input, voice, request.speed, request.language)
        call = await exchange.long_work(lambda: self._services.prepare(pipeline, spoken, exchange))
        exchange.at_end(call.close)
        exchange.when_gone(call.close)
        call.start()
        return call

    async def _whole(self, speech: Speech, form: str, rate: int) -> bytes:
        """The file at once; a wav file says how long it is."""
        data = b"".join([piece async for piece in speech.pieces()])
        if form != "wav":
            return data
        samples = data.removeprefix(wav_header(rate))
        return wav_header(rate, len(samples)) + samples

    async def _sound(self, speech: Speech) -> AsyncIterator[bytes]:
        """The bytes of the file; they begin with the first sentence, so that an earlier failure has its own
        status.  A later one breaks the connection off.
        """
        pieces = speech.pieces()
        first = await first_piece(pieces, speech.exchange)

        async def data() -> AsyncIterator[bytes]:
            with suppress(ClientGone):
                piece = await first
                while piece is not None:
                    if piece:
                        yield piece
                    piece = await next_piece(pieces)

        return data()

    async def _events(self, speech: Speech) -> AsyncIterator[bytes]:
        sound = await self._sound(speech)

        async def data() -> AsyncIterator[bytes]:
            exchange = speech.exchange
            try:
                async for piece in sound:
                    yield sound_event(piece)
                yield end_event(speech.num_phonemes)
            except Exception as error:
                yield error_events(public_error(error, exchange.trace, exchange.error_words))

        return data()


def settings_of(pipeline: Pipeline) -> VoiceSettings:
    """The settings of the voice that a model speaks with."""
    nodes: list[Any] = [line.node for line in pipeline.lines if isinstance(line.node, Phonemes)]
    settings: VoiceSettings = nodes[0].settings
    return settings
