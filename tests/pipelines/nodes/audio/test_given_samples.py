"""Sounds of a request that came as samples, as those of a voice conversation do."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.base.errors import RequestError
from pipelines.nodes.audio import decoding
from pipelines.nodes.audio.decoding import RATE, decoded_sound
from pipelines.values.tasks import SoundInput


def test_samples_are_taken_as_they_are_and_no_file_is_read(monkeypatch):
    monkeypatch.setattr(decoding, "decode_audio", None)
    samples = np.zeros(RATE, np.float32)
    sound = SoundInput("data:;base64,item_1", "input_audio", "messages.0.content.0", samples=samples)
    assert decoded_sound(sound, 1, 1.0, 60.0) is samples


def test_samples_count_in_the_seconds_of_a_request():
    sound = SoundInput("a", "input_audio", "messages.0.content.0", samples=np.zeros(RATE, np.float32))
    with pytest.raises(RequestError, match="may have 60 seconds together"):
        decoded_sound(sound, 1, 0.5, 60.0)
