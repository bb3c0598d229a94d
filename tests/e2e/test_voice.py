"""A real server with the Piper voice of `make demo-voice` speaks, and Whisper of `make demo-speech` hears it."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from difflib import SequenceMatcher
from pathlib import Path

import httpx
import openai
import pytest
from closed_clients import closed_later
from patience import PATIENCE_S
from server_process import ROOT, ServerProcess

from pipelines.nodes.audio.decoding import decode_audio
from pipelines.nodes.voice.espeak import find_espeak
from server.apis.voice.encoders import wav_header

VOICE = Path(os.environ.get("VOICE", ROOT / "model_repo" / "joe"))
WHISPER = Path(os.environ.get("WHISPER", ROOT / "model_repo" / "whisper"))
TEXT = "The quick brown fox jumps over the lazy dog. How far away is the moon?"
pytestmark = [
    pytest.mark.skipif(not VOICE.exists(), reason=f"{VOICE} is missing: `make demo-voice` fetches it"),
    pytest.mark.skipif(find_espeak() is None, reason="espeak-ng is not installed"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    models = tmp_path_factory.mktemp("voice") / "models"
    models.mkdir()
    for name, folder in (("joe", VOICE), ("whisper", WHISPER)):
        if folder.exists():
            (models / name).symlink_to(folder.resolve())
    if WHISPER.exists():
        (models / "braid-demo").symlink_to(ROOT / "model_repo" / "braid-demo")
        (models / "assistant").mkdir()
        graph = (ROOT / "examples" / "voice" / "graph.yaml").read_text().replace("smollm2", "braid-demo")
        (models / "assistant" / "graph.yaml").write_text(graph)
    with ServerProcess(models) as running:
        running.all_ready()
        yield running.url


def test_it_speaks_slower_and_faster(served):
    client = closed_later(openai.OpenAI(base_url=f"{served}/v1", api_key="none"))
    seconds = [
        len(
            decode_audio(
                client.audio.speech.create(model="joe", voice="alloy", input=TEXT, speed=speed).content
            )
        )
        / 16_000
        for speed in (2.0, 1.0, 0.5)
    ]
    assert seconds[0] < seconds[1] < seconds[2]
    assert 3 < seconds[1] < 8


@pytest.mark.skipif(not WHISPER.exists(), reason=f"{WHISPER} is missing: `make demo-speech` fetches it")
def test_what_it_says_is_understood(served):
    sound = httpx.post(
        f"{served}/v3/audio/speech", json={"model": "joe", "input": TEXT}, timeout=PATIENCE_S
    ).content
    client = closed_later(openai.OpenAI(base_url=f"{served}/v1", api_key="none"))
    heard = client.audio.transcriptions.create(model="whisper", file=("a.wav", sound)).text
    assert _words(heard) == _words(TEXT)


@pytest.mark.skipif(not WHISPER.exists(), reason=f"{WHISPER} is missing: `make demo-speech` fetches it")
def test_an_assistant_hears_answers_and_speaks(served):
    """Two turns of OpenAI's client, whose sounds are heard right, and whose reply says what its text does."""
    client = closed_later(openai.OpenAI(base_url=f"{served}/v1", api_key="none"))
    speak, pcm = client.audio.speech.create, {"model": "joe", "voice": "alloy", "response_format": "pcm"}
    with client.realtime.connect(model="assistant") as connection:
        sound = {"turn_detection": None, "transcription": {"model": "whisper-1"}}
        connection.session.update(session={"type": "realtime", "audio": {"input": sound}})
        for question in ("What is the capital of France?", "What is the weather like today?"):
            asked = b64encode(speak(input=question, **pcm).content).decode()
            connection.input_audio_buffer.append(audio=asked)
            connection.input_audio_buffer.commit()
            connection.response.create()
            heard, spoken = "", b""
            for event in connection:
                if event.type == "conversation.item.input_audio_transcription.completed":
                    heard = event.transcript
                elif event.type == "response.output_audio.delta":
                    spoken += b64decode(event.delta)
                elif event.type == "response.done":
                    break
            assert _words(heard) == _words(question)
            text = event.response.output[0].content[0].transcript
            reply = wav_header(24_000, len(spoken)) + spoken
            understood = client.audio.transcriptions.create(model="whisper", file=("a.wav", reply)).text
            assert SequenceMatcher(None, _words(understood), _words(text)).ratio() > 0.6, (understood, text)


def _words(text):
    return "".join(each for each in text.lower() if each.isalnum() or each == " ").split()
