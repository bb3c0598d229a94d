"""The events of speech as a stream, in OpenAI's form."""

from __future__ import annotations

import base64
from typing import Literal

from server.schema.reply_models import Reply
from server.schema.sse import event


class SpeechUsage(Reply):
    """Phonemes that were read; the model writes samples, so that there are no tokens of output."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class SpokenEvent(Reply):
    """`audio` is the next piece of the sound file in base64."""

    type: Literal["speech.audio.delta", "speech.audio.done"]
    audio: str | None = None
    usage: SpeechUsage | None = None


def sound_event(piece: bytes) -> bytes:
    return event(SpokenEvent(type="speech.audio.delta", audio=base64.b64encode(piece).decode()))


def end_event(num_phonemes: int) -> bytes:
    usage = SpeechUsage(input_tokens=num_phonemes, output_tokens=0, total_tokens=num_phonemes)
    return event(SpokenEvent(type="speech.audio.done", usage=usage))
