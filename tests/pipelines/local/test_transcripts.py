"""Transcriptions from Python: their options, the recordings they take, and the times of their words."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
from sound_files import sound_file, tone

import pipelines.local.speech as speech
from pipelines.base.errors import RequestError
from pipelines.local.bodies import speech_body
from pipelines.nodes.speech.window_text import Transcription, WindowText
from pipelines.nodes.speech.windows import Window
from pipelines.values.reply_values import Segment, SpokenWord


class TwoWindows:
    """A transcriber: a word in each second of two windows of two seconds."""

    def __init__(self, *given):
        self.given = given

    async def parallel(self, sound):
        words = [SpokenWord(" one", 0.1, 0.9), SpokenWord(" two", 1.0, 2.5)]
        texts = []
        for start_s in (0.0, 2.0):
            segment = Segment(0.0, 2.5, " one two", [1, 2], [-0.1, -0.2], words=words)
            window = Window(start_s, sound[int(start_s * 16_000) :][:32_000])
            texts.append(WindowText(window, text=" one two", segments=[segment]))
        return Transcription(len(sound) / 16_000, "en", texts)


@pytest.fixture
def transcribe(monkeypatch):
    async def find(model, ability, request):
        return SimpleNamespace(lines=[])

    monkeypatch.setattr(speech, "Transcriber", TwoWindows)
    engine = SimpleNamespace(find=find, client=None)

    def transcribe(recording, translate=False, **options):
        return asyncio.run(speech.transcript_of(engine, speech_body(translate, None, options), recording))

    return transcribe


@pytest.mark.parametrize("form", ["path", "bytes", "samples"])
def test_a_recording_is_a_file_its_bytes_or_samples(transcribe, tmp_path, form):
    data = sound_file(tone(4.0), "wav", "pcm_s16le")
    (tmp_path / "tone.wav").write_bytes(data)
    recordings = {"path": tmp_path / "tone.wav", "bytes": data, "samples": np.zeros(64_000, np.float32)}
    found = transcribe(recordings[form])
    assert (found.text, found.language, round(found.duration_s, 2)) == ("one two one two", "en", 4.0)
    assert found.segments == ()


def test_times_are_those_of_the_recording_and_stay_within_it(transcribe):
    found = transcribe(np.zeros(64_000, np.float32), timestamp_granularities=["segment"])
    assert [(each.start_s, each.end_s) for each in found.segments] == [(0.0, 2.0), (2.0, 4.0)]
    assert [word.end_s for each in found.segments for word in each.words] == [0.9, 2.0, 2.9, 4.0]


def test_words_need_a_graph_that_finds_them(transcribe):
    with pytest.raises(RequestError, match="Word timestamps not supported for this model"):
        transcribe(np.zeros(16_000, np.float32), timestamp_granularities=["word"])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"temperature": 3.0}, "temperature must be in [0, 2], got 3.0."),
        ({"timestamp_granularities": ["verse"]}, "`timestamp_granularities[].0` must be 'segment' or 'word'"),
        ({"translate": True, "timestamp_granularities": ["word"]}, "unknown field `timestamp_granularities`"),
    ],
)
def test_options_are_checked(transcribe, options, text):
    with pytest.raises(RequestError) as raised:
        transcribe(np.zeros(16_000, np.float32), **options)
    assert raised.value.message.startswith(text)


def test_what_is_no_sound_is_refused(transcribe):
    with pytest.raises(RequestError):
        transcribe(b"no sound")
