"""POST audio/transcriptions and audio/translations: a recording → its text."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from functools import partial
from typing import ClassVar, Literal

import falcon.asgi
from pydantic import ValidationError

from pipelines.base.errors import MissingField, RequestError
from pipelines.nodes.audio.decoding import AudioLimits, decode_audio
from pipelines.nodes.speech.window_text import Transcription
from pipelines.nodes.speech.windows import SAMPLES_PER_S, Sound
from pipelines.requests.fields.validation import from_validation
from pipelines.requests.speech.request import SpeechRequest, TranscriptionRequest, TranslationRequest
from pipelines.telemetry.speech import count_audio
from pipelines.transcription.transcriber import Transcriber, check_words
from pipelines.worker.model_choice import SPEECH
from server.apis.speech.events import SpeechEvents
from server.apis.speech.form import sound_form
from server.apis.speech.replies import FORMATS, JSON, SpeechReply
from server.dialects import OVMS
from server.http.errors import public_error
from server.http.exchange import Exchange
from server.http.form import UploadForm
from server.http.streaming import as_stream, first_piece, next_piece
from server.http.work_queue import LONG_WORK_BYTES
from server.services.model_lookup import find_pipeline
from server.services.services import Services


class TranscriptionsEndpoint:
    """A recording → its text, in the language that is spoken."""

    body: ClassVar[type[SpeechRequest]] = TranscriptionRequest
    chunk: ClassVar[Literal["transcription.chunk", "translation.chunk"]] = "transcription.chunk"

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        max_bytes = int(services.settings.max_audio_mb * (1 << 20))
        form = await services.admit_read(req, sound_form(req.content_type or "", max_bytes).read)
        is_ovms = exchange.dialect is OVMS
        request = self._checked(form, is_ovms)
        pipeline = await find_pipeline(services, exchange, request.model, SPEECH)
        with_words = "word" in request.granularities
        if with_words:
            check_words(pipeline)
        sound = await self._decoded(form.files.pop("file"), exchange)
        transcriber = Transcriber(
            partial(services.route, exchange),
            pipeline,
            exchange,
            request.speech(),
            request.sampling(),
            with_words,
        )
        if request.stream:
            events = SpeechEvents(
                f"transcribe-{request.request_id or exchange.request_id}",
                self.chunk,
                pipeline.name,
                is_ovms,
                bool(request.stream_include_usage),
                bool(request.stream_continuous_usage_stats),
            )
            as_stream(resp, await self._stream(transcriber, sound, events, exchange, pipeline.name))
            return
        transcript = await self._transcribed(request, transcriber, sound)
        count_audio(pipeline.name, transcript.duration_s, time.monotonic() - exchange.started_s)
        resp.content_type, resp.data = self._reply(request, transcript, is_ovms)

    def _checked(self, form: UploadForm[bytes], is_ovms: bool) -> SpeechRequest:
        """Raises RequestError."""
        if isinstance(form.texts.get("file"), str):
            raise RequestError("Expected 'file' to be a file-like object, not 'str'.", "file")
        other = next((name for name in form.files if name != "file"), None)
        if other is not None:
            raise RequestError(f"`{other}` must not be a file; the recording is the field `file`", other)
        if "file" not in form.files:
            raise MissingField("`file` is required: the recording, as a file of the form", "file")
        try:
            request = self.body.model_validate({**form.texts, "file": b""})
        except ValidationError as error:
            raise from_validation(error) from None
        if request.granularities and request.response_format != "verbose_json" and not is_ovms:
            raise RequestError(
                "timestamp_granularities[] needs `response_format` verbose_json", "timestamp_granularities[]"
            )
        return request

    async def _decoded(self, file: bytes, exchange: Exchange) -> Sound:
        """Long work, however few bytes a recording has."""
        limits = AudioLimits(max_seconds=self._services.settings.max_audio_s)
        num_bytes = max(len(file), LONG_WORK_BYTES + 1)
        sound = await exchange.off_loop(lambda: decode_audio(file, limits), num_bytes)
        exchange.at_end(self._services.sounds.hold(sound.nbytes))
        return sound

    async def _transcribed(
        self, request: SpeechRequest, transcriber: Transcriber, sound: Sound
    ) -> Transcription:
        if request.detects_only:
            return Transcription(len(sound) / SAMPLES_PER_S, await transcriber.detect(sound), [])
        return await (transcriber.sequential if request.sequential else transcriber.parallel)(sound)

    def _reply(self, request: SpeechRequest, found: Transcription, is_ovms: bool) -> tuple[str, bytes]:
        reply = SpeechReply(found, request.translates, request.granularities)
        if request.detects_only:
            return JSON, reply.language()
        if is_ovms and request.granularities and request.response_format == "json":
            return JSON, reply.segmented()
        content_type, write = FORMATS[request.response_format]
        return content_type, write(reply)

    async def _stream(
        self,
        transcriber: Transcriber,
        sound: Sound,
        events: SpeechEvents,
        exchange: Exchange,
        model: str,
    ) -> AsyncIterator[bytes]:
        """The bytes of a stream, which starts at the first update: an earlier failure has its own status."""
        updates = transcriber.stream(sound)
        first = await first_piece(updates, exchange)

        async def data() -> AsyncIterator[bytes]:
            try:
                with exchange.kept_alive():
                    update = await first
                    while update is not None:
                        if piece := events.piece(*update):
                            exchange.has_written = True
                            yield piece
                        update = await next_piece(updates)
                    yield events.ending()
                count_audio(model, len(sound) / SAMPLES_PER_S, time.monotonic() - exchange.started_s)
            except Exception as error:
                yield events.failure(public_error(error, exchange.trace, exchange.error_words))

        return data()


class TranslationsEndpoint(TranscriptionsEndpoint):
    """A recording → its text in English."""

    body = TranslationRequest
    chunk = "translation.chunk"
