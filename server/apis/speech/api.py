"""The paths that read sound."""

from __future__ import annotations

from server.apis.speech.endpoint import TranscriptionsEndpoint, TranslationsEndpoint
from server.services.api import Api

API = Api(
    "speech",
    prefixed={
        "/audio/transcriptions": TranscriptionsEndpoint,
        "/audio/translations": TranslationsEndpoint,
    },
)
