from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from speech_rig import TRANSCRIPTIONS, Script, SpeechPipeline, decoded, fluent, form, recording

import server.apis.speech.endpoint as endpoint


@pytest.fixture
def speak(make_rig, monkeypatch) -> Callable[..., Any]:
    """Posts a form to a new application, and returns its answer; `speak.pipeline` is the model."""
    monkeypatch.setattr(endpoint, "decode_audio", decoded)

    def speak(
        path: str = TRANSCRIPTIONS,
        seconds: float | None = 1.0,
        script: Script = fluent,
        languages: tuple[str, ...] = ("de", "en"),
        settings: dict[str, Any] | None = None,
        finds_words: bool = True,
        **fields: Any,
    ) -> Any:
        speak.pipeline = SpeechPipeline(script, languages)
        if not finds_words:
            speak.pipeline.lines.pop()
        file = None if seconds is None else recording(seconds)
        body, headers = form(file, **fields)
        return make_rig(speak.pipeline, **(settings or {})).post(path, body, **headers)

    return speak
