"""End tokens are what any of the settings beside a model says."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from pipelines.nodes.generation.model_settings import end_token_ids

MODEL = SimpleNamespace(config=SimpleNamespace(path="model/onnx/model.onnx"))
SAMPLER = SimpleNamespace(config=SimpleNamespace(defaults="own/generation_config.json"))


@pytest.fixture
def say(tmp_path):
    """Write settings below the model's folder; gives the end tokens that all of them name."""

    def write(**files):
        for name, fields in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(fields))
        return end_token_ids(tmp_path, [MODEL, SAMPLER])

    return write


def test_nobody_names_any(say):
    assert say() == frozenset()


def test_beside_the_model_and_one_folder_above(say):
    above, beside = {"eos_token_id": [1, 2]}, {"eos_token_id": 3}
    assert say(model__generation_config=above, model__onnx__config=beside) == {1, 2, 3}


def test_beside_the_samplers_defaults(say):
    assert say(own__generation_config={"eos_token_id": 4}) == {4}


def test_in_the_words_of_onnxruntime_genai(say):
    assert say(model__onnx__genai_config={"model": {"eos_token_id": [5]}}) == {5}


def test_null_names_none(say):
    assert say(model__config={"eos_token_id": None}) == frozenset()


@pytest.mark.parametrize("value", ["</s>", [1, None], -1, True])
def test_what_is_no_token_id_is_refused_with_file_and_key(say, value):
    with pytest.raises(ValueError, match=r"config\.json: eos_token_id "):
        say(model__config={"eos_token_id": value})
