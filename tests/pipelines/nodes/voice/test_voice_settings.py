"""The settings of a Piper voice: voices by name, languages, and what is refused."""

import json

import pytest
from voice_models import IDS, voice_config

from pipelines.base.errors import RequestError
from pipelines.nodes.voice.voice_settings import read_voice_settings


@pytest.fixture
def read(tmp_path):
    def read(**changes):
        path = tmp_path / "v.onnx.json"
        path.write_text(json.dumps(voice_config(**changes)))
        return read_voice_settings(path)

    return read


def test_one_speaker(read):
    settings = read(phoneme_type="espeak")
    assert (settings.espeak_voice, settings.languages) == ("en-us", ("en-us", "en"))
    assert [settings.voice(name) for name in (None, "tiny", "alloy", "verse")] == ["tiny"] * 4
    with pytest.raises(
        RequestError, match=r"'bob' not found in available voices: tiny; OpenAI's names mean tiny"
    ):
        settings.voice("bob")


def test_several_speakers(read):
    settings = read(num_speakers=2, speaker_id_map={"ann": 0, "nova": 1})
    assert [settings.voice(name) for name in (None, "alloy", "nova")] == ["ann", "ann", "nova"]
    assert dict(read(num_speakers=2).speakers) == {"0": 0, "1": 1}


def test_languages(read):
    settings = read()
    for language in (None, "en", "en_US", "en-us"):
        settings.check_language(language)
    with pytest.raises(RequestError, match="does not speak `de`; it speaks: en-us, en"):
        settings.check_language("de")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"phoneme_type": "pinyin"}, "phoneme_type is 'pinyin'; supported are espeak, text"),
        ({"phoneme_map": {"a": ["b"]}}, "phoneme_map"),
        ({"phoneme_id_map": {**IDS, "a": 3}}, "`a` has no list of ids"),
        ({"phoneme_id_map": {"^": [1], "$": [2]}}, "has no `_`"),
        ({"audio": {}}, "lacks 'sample_rate'"),
        ({"audio": {"sample_rate": 0}}, "audio.sample_rate is 0"),
        ({"num_speakers": 2, "speaker_id_map": {"x": 2}}, "not among the 2"),
    ],
)
def test_what_is_refused(read, changes, text):
    with pytest.raises(ValueError, match="v.onnx.json, the settings of a Piper voice:") as caught:
        read(**changes)
    assert text in str(caught.value)
