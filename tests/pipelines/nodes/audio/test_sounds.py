"""The sounds of a conversation: bounds, windows and their places in a prompt."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

pytest.importorskip("av", reason="needs the extra audio")

from tiny_voxtral import RATE, WINDOW_TOKENS, sound, wav

from pipelines.base.errors import RequestError
from pipelines.nodes.audio import log_mel
from pipelines.nodes.audio.sounds import ReadAudio
from pipelines.nodes.images.places import place_images
from pipelines.values.node_values import Sounds
from pipelines.values.tasks import SoundInput

MODEL = {
    "model_type": "voxtral",
    "audio_token_id": 24,
    "audio_config": {
        "hidden_size": 16,
        "intermediate_size": 64,
        "num_mel_bins": 16,
        "max_source_positions": 100,
    },
}
SETTINGS = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "feature_size": 16,
    "sampling_rate": RATE,
    "n_fft": 400,
    "hop_length": 160,
    "chunk_length": 2,
}


class Loading:
    def shared(self, open_file, path, *settings):
        return open_file(path, *settings)


def reader(folder, model=MODEL, settings=SETTINGS, **config):
    (folder / "config.json").write_text(json.dumps(model))
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    names = {"model": "config.json", "settings": "preprocessor_config.json"}
    node = ReadAudio(ReadAudio.Config(**names, **config), folder)
    node.load(Loading())
    return node


def given(data, index=0):
    url = f"data:;base64,{base64.b64encode(data).decode()}"
    return SoundInput(url, "input_audio", f"messages.0.content.{index}")


def test_a_sound_is_filled_up_to_whole_windows(tmp_path):
    node = reader(tmp_path)
    read = node.read([given(wav(sound(1, 1.5))), given(wav(sound(2, 4.1))), given(wav(sound(1, 1.5)))])
    assert isinstance(read, Sounds)
    assert read.values.shape == (5, 16, 200)
    assert read.lengths == [WINDOW_TOKENS] * 5
    assert read.texts == [
        "[BEGIN_AUDIO][AUDIO]",
        "[BEGIN_AUDIO][AUDIO][AUDIO][AUDIO]",
        "[BEGIN_AUDIO][AUDIO]",
    ]
    assert read.digests[0] == read.digests[4]
    assert len(set(read.digests)) == 4
    assert node.read([]).lengths == []
    with pytest.raises(RequestError, match="has 0 places for sounds, and the request has 5 sounds"):
        place_images([[1, 2]], read, "messages")


def test_a_long_sound_is_computed_in_parts(tmp_path, monkeypatch):
    node, given_sound = reader(tmp_path), given(wav(sound(3, 35.3)))
    parts = node.read([given_sound]).values
    monkeypatch.setattr(log_mel, "PART", 10**6)
    assert len(parts) == 18
    assert np.array_equal(parts, node.read([given_sound]).values)


@pytest.mark.breadth
def test_a_long_sound_has_the_features_that_transformers_gives(tmp_path):
    transformers = pytest.importorskip("transformers", reason="the extra export")
    samples = sound(3, 61.3)
    node = reader(tmp_path)
    read = node.read([given(wav(samples))])
    input_features = transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=2)(
        samples / np.float32(32768),
        sampling_rate=RATE,
        truncation=False,
        padding=True,
        pad_to_multiple_of=2 * RATE,
        return_tensors="np",
    )["input_features"]
    wanted = input_features.reshape(16, -1, 200).swapaxes(0, 1)
    assert len(wanted) == 31
    assert np.abs(read.values - wanted).max() < 1e-4


@pytest.mark.parametrize(
    ("sounds", "config", "words"),
    [
        ([wav(sound(1, 0.1))] * 3, {"max_sounds": 2}, r"At most 2 audio\(s\) may be provided"),
        ([wav(sound(1, 0.1)), b"junk"], {}, "messages.0.content.1`: Invalid or unsupported audio file"),
        ([b""], {}, "Invalid or unsupported audio file"),
        ([wav(sound(1, 0.6))] * 2, {"max_seconds": 1}, "may have 1 seconds together"),
        ([bytes(2000)], {"max_mb": 0.001}, "the file has 0.0 MB; at most 0.001 MB"),
    ],
)
def test_what_is_too_much_or_no_sound_is_refused_with_its_place(tmp_path, sounds, config, words):
    node = reader(tmp_path, **config)
    with pytest.raises(RequestError, match=words) as refused:
        node.read([given(data, index) for index, data in enumerate(sounds)])
    assert refused.value.field == f"messages.0.content.{len(sounds) - 1}"


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        ({"model_type": "qwen2_audio"}, SETTINGS, "sounds of models of type qwen2_audio are not read"),
        ({**MODEL, "audio_config": {}}, SETTINGS, "the model reads windows of 128 × 3000"),
        ({**MODEL, "audio_token_id": None}, SETTINGS, "audio_token_id"),
        ([], SETTINGS, "cannot be read"),
        (MODEL, {**SETTINGS, "chunk_length": 3}, "they are made of 16 × 300"),
    ],
)
def test_models_that_read_sounds_in_another_way_are_refused(tmp_path, model, settings, words):
    with pytest.raises(ValueError, match=words):
        reader(tmp_path, model, settings)
