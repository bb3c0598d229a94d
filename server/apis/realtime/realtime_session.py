"""What both kinds of events share of one socket: its model, its sound, its utterances, what is sent."""

from __future__ import annotations

import secrets
import time

import falcon.asgi

from pipelines.base.errors import RequestError
from pipelines.worker.model_choice import SPEECH, able_names
from server.apis.realtime.live_text import LiveText, TextListener
from server.apis.realtime.pcm import Pcm, PcmReader
from server.apis.realtime.utterance import HeldSound, Utterance
from server.apis.realtime.window_reader import SpeechChoice, check_model
from server.http.socket_exchange import SocketExchange
from server.schema.reply_models import Reply
from server.services.services import Services


class RealtimeSession:
    """`asked_model` is the one that the address names, if any."""

    def __init__(
        self, services: Services, ws: falcon.asgi.WebSocket, socket: SocketExchange, asked_model: str | None
    ) -> None:
        self.id = f"sess-{secrets.token_hex(12)}"
        self.created = int(time.time())
        self.live_text = LiveText(services, socket)
        self.services = services
        self.socket = socket
        self.asked_model = asked_model
        self._ws = ws
        self._held = HeldSound(services.settings.max_audio_s)

    @property
    def default_model(self) -> str | None:
        """The model of the address, or the only one that reads speech."""
        able = able_names(self.services.of(self.socket).catalogue.cards(), SPEECH)
        return self.asked_model or (able[0] if len(able) == 1 else None)

    @property
    def default_reader(self) -> str | None:
        """The only model that reads speech."""
        able = able_names(self.services.of(self.socket).catalogue.cards(), SPEECH)
        return able[0] if len(able) == 1 else None

    @property
    def names_talker(self) -> bool:
        """Whether the address names a chat model."""
        catalogue, name = self.services.of(self.socket).catalogue, self.asked_model
        if name is None:
            return False
        model = catalogue.model_of(name)
        return any(card.name == model and card.task == "chat" for card in catalogue.cards())

    async def check_model(self, model: str | None) -> str:
        """The name of a model that reads speech, loaded if it has to be.  Raises NotFound and others."""
        return await check_model(self.services, self.socket, model)

    def new_utterance(self) -> Utterance:
        return Utterance(self._held)

    def start(self, utterance: Utterance, choice: SpeechChoice, listener: TextListener) -> None:
        self.live_text.start(utterance, choice, listener)

    async def samples(self, pcm: PcmReader, audio: str) -> Pcm:
        """Decoded off the event loop where it is long.  Raises RequestError."""
        try:
            return await self.socket.off_loop(lambda: pcm.read(audio), len(audio))
        except ValueError:
            raise RequestError("Invalid audio data", "audio", word="invalid_audio") from None

    async def send(self, event: Reply) -> None:
        await self._ws.send_text(event.to_json().decode())
