"""The path that speaks."""

from __future__ import annotations

from server.apis.voice.endpoint import SpeechEndpoint
from server.services.api import Api

API = Api("voice", prefixed={"/audio/speech": SpeechEndpoint})
