"""POST audio/speech: fields, formats, streams, errors."""

from __future__ import annotations

import asyncio
import base64
import io
import sys
import wave
from types import SimpleNamespace

import av
import numpy as np
import pytest
from patience import PATIENCE_S
from scripted import ScriptedPipeline
from voice_models import voice_config

from pipelines.base.errors import EngineError
from pipelines.nodes.voice.phonemes import Phonemes
from pipelines.nodes.voice.voice_settings import _settings
from pipelines.values.node_values import SpokenSound

SPEECH, OVMS_SPEECH = "/v1/audio/speech", "/v3/audio/speech"
RATE = 22_050
TONE = (np.sin(np.arange(RATE) * 2 * np.pi * 441 / RATE) * 20_000).astype(np.int16)


class SpeakingCall:
    """Speaks a second of a tone for each sentence; an exception among them is raised."""

    def __init__(self, request, sounds):
        self.request, self.sounds = request, sounds
        self.prompt_lengths = [5] * len(sounds)
        self.closed = asyncio.Event()

    def start(self): ...

    async def parts(self):
        for sound in self.sounds:
            if isinstance(sound, Exception):
                raise sound
            if isinstance(sound, str):  # "forever"
                await self.closed.wait()
                return
            yield SpokenSound(sound, RATE)

    def close(self):
        self.closed.set()


class VoicePipeline(ScriptedPipeline):
    def __init__(self, *sounds):
        super().__init__("speak")
        node = Phonemes(Phonemes.Config(settings="s.json"), None)
        node.settings = _settings(voice_config(audio={"sample_rate": RATE}))
        self.lines, self.sounds = [SimpleNamespace(node=node)], sounds or (TONE, TONE)

    def prepare(self, request, client, tenant="", trace=None):
        self.calls.append(SpeakingCall(request, self.sounds))
        return self.calls[-1]

    def asked_of(self):
        return self.calls[-1].request


@pytest.fixture
def speak(make_rig):
    def speak(path=SPEECH, sounds=(), **fields):
        speak.pipeline = VoicePipeline(*sounds)
        return make_rig(speak.pipeline).post(
            path, {"model": "tiny", "input": "Hello.", "voice": "alloy", **fields}
        )

    return speak


def decoded(data):
    with av.open(io.BytesIO(data)) as file:
        rate = file.streams.audio[0].rate
        samples = np.concatenate([frame.to_ndarray().ravel() for frame in file.decode(audio=0)])
    return rate, len(samples), samples


@pytest.mark.parametrize(
    ("name", "content_type", "rate"),
    [
        ("mp3", "audio/mpeg", RATE),
        ("opus", "audio/ogg", 48_000),
        ("aac", "audio/aac", RATE),
        ("flac", "audio/flac", RATE),
        ("wav", "audio/wav", RATE),
    ],
)
def test_formats(speak, name, content_type, rate):
    answer = speak(response_format=name)
    assert (answer.status, answer.headers["content-type"]) == (200, content_type)
    found_rate, count, samples = decoded(answer.body)
    assert (found_rate, len(answer.writes) >= 2) == (rate, True)
    assert 2 * rate <= count <= 2 * rate + 4096
    loudness = np.abs(samples[rate // 2 : rate].astype(float)).mean() / (
        1 if samples.dtype.kind == "f" else 32_768
    )
    assert 0.3 < loudness < 0.5


def test_mp3_is_the_default_and_the_header_names_the_voice(speak):
    answer = speak()
    assert (answer.headers["content-type"], answer.headers["x-braid-voice"]) == ("audio/mpeg", "tiny")
    assert speak.pipeline.asked_of().voice == "tiny"


def test_pcm_is_at_openai_s_rate(speak):
    samples = np.frombuffer(speak(response_format="pcm").body, "<i2")
    assert len(samples) == 48_000
    spectrum = np.abs(np.fft.rfft(samples[:24_000].astype(float)))
    assert spectrum.argmax() == 441


def test_a_wav_whose_length_is_not_known_yet(speak):
    data = speak(response_format="wav").body
    assert data[4:8] == data[40:44] == b"\xff" * 4
    assert data[44:] == np.concatenate([TONE, TONE]).tobytes()


def test_ovms_replies_with_a_whole_wav(speak):
    answer = speak(OVMS_SPEECH)
    with wave.open(io.BytesIO(answer.body)) as file:
        assert (file.getframerate(), file.getnframes(), file.getnchannels()) == (RATE, 2 * RATE, 1)
    assert answer.headers["content-length"] == str(len(answer.body))
    assert speak(OVMS_SPEECH, response_format="flac").body.startswith(b"fLaC")


def test_events(speak):
    events = speak(response_format="pcm", stream_format="sse").events
    *deltas, done = events
    assert [each["type"] for each in deltas] == ["speech.audio.delta"] * 2
    assert [len(base64.b64decode(each["audio"])) for each in deltas] == [48_000, 48_000]
    assert done == {
        "type": "speech.audio.done",
        "usage": {"input_tokens": 10, "output_tokens": 0, "total_tokens": 10},
    }


def test_fields_reach_the_model(speak):
    assert speak(speed=0.5, voice={"id": "tiny"}, language="en", stream=True, instructions="").status == 200
    request = speak.pipeline.asked_of()
    assert (request.text, request.voice, request.speed, request.language) == ("Hello.", "tiny", 0.5, "en")


@pytest.mark.parametrize(
    ("path", "fields", "field", "text"),
    [
        (SPEECH, {"input": None}, "input", "input"),
        (SPEECH, {"input": " "}, "input", "`input` must not be empty"),
        (SPEECH, {"input": "a" * 4097}, "input", "`input` may have 4096 characters at most"),
        (SPEECH, {"voice": "bob"}, "voice", "'bob' not found in available voices: tiny"),
        (
            SPEECH,
            {"response_format": "ogg"},
            "response_format",
            "'mp3', 'opus', 'aac', 'flac', 'wav' or 'pcm'",
        ),
        (SPEECH, {"speed": 5}, "speed", "speed must be in [0.25, 4], got 5"),
        (SPEECH, {"stream_format": "x"}, "stream_format", "'audio' or 'sse'"),
        (SPEECH, {"instructions": "Whisper."}, "instructions", "voices speak in one way"),
    ],
)
def test_refused(speak, path, fields, field, text):
    answer = speak(path, **fields)
    assert (answer.status, answer.error["param"]) == (400, field)
    assert text in answer.error["message"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"input": 5}, "input field is not a string"),
        ({"speed": 9}, "speed must be between speed_min (0.25) and speed_max (4)"),
        ({"voice": 3}, "voice field is not a string"),
        ({"voice": "bob"}, "Requested voice 'bob' not found in available voices: tiny"),
    ],
)
def test_refused_in_ovms_words(speak, fields, text):
    answer = speak(OVMS_SPEECH, **fields)
    assert answer.status == 400
    assert text in answer.error


def test_without_pyav_only_wav_and_pcm(speak, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    answer = speak()
    assert (answer.status, answer.error["param"]) == (400, "response_format")
    assert "pip install 'braid-server[audio]'" in answer.error["message"]
    assert speak(response_format="wav").status == 200


def test_a_failure_before_the_first_sentence_has_its_own_status(speak):
    assert speak(sounds=[EngineError("broken")]).status == 500


def test_a_later_failure_breaks_the_sound_off_or_is_an_event(speak):
    sounds = [TONE, EngineError("broken")]
    with pytest.raises(EngineError):
        speak(sounds=sounds, response_format="pcm")
    assert speak(sounds=sounds, response_format="pcm", stream_format="sse").events[-2]["error"]["code"] == 500


def test_a_client_that_hangs_up_ends_the_call(make_rig):
    pipeline = VoicePipeline(TONE, "forever")
    rig = make_rig(pipeline)

    async def scenario(client):
        body = b'{"model": "tiny", "input": "Hello.", "response_format": "pcm"}'
        request = client.begin("POST", SPEECH, body, {"content-type": "application/json"})
        await asyncio.wait_for(request.answer.wrote.wait(), PATIENCE_S)
        request.hang_up()
        await asyncio.wait_for(pipeline.calls[0].closed.wait(), PATIENCE_S)
        await asyncio.wait_for(request.task, PATIENCE_S)

    rig.run(scenario)


def test_a_model_that_does_not_speak(rig):
    answer = rig.post(SPEECH, {"model": "tiny", "input": "Hello."})
    assert answer.status == 404
    assert "does not speak: its task is chat; no model here does" in answer.error["message"]
