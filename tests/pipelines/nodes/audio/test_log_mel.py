"""Log-mel features beside those of transformers."""

import json

import numpy as np
import pytest
from later import Later
from sound_files import RATE, tone

from pipelines.base.errors import RequestError
from pipelines.nodes.audio.log_mel import LogMel, MelSettings, read_settings, write_log_mel

pytestmark = pytest.mark.slow
whisper = Later("transformers.models.whisper")

SILENCE = np.zeros(RATE, np.float32)
NOISE = np.random.default_rng(0).standard_normal(31 * RATE).astype(np.float32) * 0.1
SYLLABLES = tone(8) * (1 + NOISE[: 8 * RATE]) * (np.arange(8 * RATE) % 5000 < 3000) + NOISE[: 8 * RATE] / 100
SOUNDS = {
    "one_sample": np.full(1, 0.3, np.float32),
    "a_hop": NOISE[:160],
    "half_a_window": NOISE[:201],
    "silence": SILENCE,
    "syllables": SYLLABLES,
    "nearly_full": NOISE[: 30 * RATE - 201],
    "all_but_one": NOISE[: 30 * RATE - 1],
    "full": NOISE[: 30 * RATE],
}


class Opened:
    """What a node uses to load."""

    def shared(self, open_file, path):
        return open_file(path)


@pytest.fixture
def load(tmp_path):
    def make(**changes):
        whisper.WhisperFeatureExtractor().save_pretrained(tmp_path)
        path = tmp_path / "preprocessor_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        node = LogMel(LogMel.Config(settings="preprocessor_config.json"), tmp_path)
        node.load(Opened())
        return node

    return make


@pytest.mark.parametrize("num_mels", [80, 128])
@pytest.mark.parametrize(("with_torch", "within"), [(False, 1e-6), (True, 1e-4)])
def test_features_are_those_of_transformers(num_mels, with_torch, within, monkeypatch):
    """Without torch it computes in float64, as Braid does; with torch in float32, which is less exact."""
    monkeypatch.setattr(whisper.feature_extraction_whisper, "is_torch_available", lambda: with_torch)
    settings = MelSettings(num_mels, RATE, 400, 160, 30 * RATE)
    extractor = whisper.WhisperFeatureExtractor(feature_size=num_mels)
    for name, sound in SOUNDS.items():
        wanted = extractor(sound, sampling_rate=RATE, return_tensors="np").input_features[0]
        got = np.empty((num_mels, 3000), np.float32)
        write_log_mel(sound, settings, got)
        assert np.abs(got - wanted).max() < within, name


def test_windows_of_a_request(load):
    node = load()
    values = node.run(None, [SOUNDS["a_hop"], SOUNDS["syllables"]]).values
    assert values.shape == (2, 80, 3000)
    assert values.dtype == np.float32
    assert not np.array_equal(values[0], values[1])


def test_shorter_windows_of_a_model(load):
    assert load(chunk_length=2, feature_size=20).run(None, [SILENCE]).values.shape == (1, 20, 200)


@pytest.mark.parametrize("sound", [SILENCE[:0], NOISE], ids=["empty", "too_long"])
def test_windows_that_do_not_fit(load, sound):
    with pytest.raises(RequestError, match="at most 30 seconds"):
        load().run(None, [SILENCE, sound])


@pytest.mark.parametrize(
    "changes",
    [
        *({"feature_size": "80"}, {"hop_length": 0}, {"do_normalize": True}, {"dither": 0.1}),
        {"feature_extractor_type": "Wav2Vec2FeatureExtractor"},
    ],
    ids=str,
)
def test_other_features_are_refused(load, changes):
    with pytest.raises(ValueError, match=r"preprocessor_config\.json"):
        load(**changes)


def test_a_file_without_settings(tmp_path):
    (tmp_path / "preprocessor_config.json").write_text("[]")
    with pytest.raises(ValueError, match="WhisperFeatureExtractor"):
        read_settings(tmp_path / "preprocessor_config.json")
