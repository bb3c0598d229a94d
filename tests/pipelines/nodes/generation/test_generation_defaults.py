"""generation_config.json: what is read, what it becomes, and what is refused."""

import json
import subprocess
import sys

import pytest

from pipelines.nodes.generation.model_settings import read_defaults


@pytest.fixture
def read(tmp_path):
    def read(**stated):
        path = tmp_path / "generation_config.json"
        path.write_text(json.dumps(stated), encoding="utf-8")
        return read_defaults(path)

    return read


def test_a_model_file_as_published(read):
    defaults = read(
        bos_token_id=151643,
        do_sample=True,
        eos_token_id=[151645, 151643],
        pad_token_id=151643,
        temperature=0.6,
        top_k=20,
        top_p=0.95,
        transformers_version="4.51.0",
    )
    assert defaults == {"temperature": 0.6, "top_k": 20, "top_p": 0.95}


def test_every_number_that_is_read(read):
    stated = {"min_p": 0.1, "repetition_penalty": 1.1, "presence_penalty": 0.5, "frequency_penalty": -0.5}
    assert read(**stated) == stated


def test_max_new_tokens_becomes_max_tokens(read):
    assert read(max_new_tokens=256) == {"max_tokens": 256}


def test_what_is_absent_or_null_is_left_out(read):
    assert read(temperature=None, top_k=None) == {}


def test_no_sampling_without_a_temperature_is_greedy(read):
    assert read(do_sample=False) == {"temperature": 0.0}


def test_a_stated_temperature_counts_even_without_sampling(read):
    assert read(do_sample=False, temperature=0.6) == {"temperature": 0.6}


def test_top_k_of_minus_one_is_off(read):
    assert read(top_k=-1) == {"top_k": 0}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temperature", "warm"),
        ("temperature", True),
        ("temperature", -1),
        ("temperature", float("nan")),
        ("top_k", 2.5),
        ("top_p", 0),
        ("top_p", 1.5),
        ("repetition_penalty", 0),
        ("repetition_penalty", float("inf")),
        ("max_new_tokens", 0),
        ("do_sample", "no"),
    ],
)
def test_a_wrong_value_is_refused_with_file_and_key(read, key, value):
    with pytest.raises(ValueError, match=rf"generation_config\.json: {key} "):
        read(**{key: value})


@pytest.mark.parametrize(("text", "reason"), [("{", "not valid JSON"), ("[]", "must hold a JSON object")])
def test_a_file_that_is_no_json_object_is_refused(tmp_path, text, reason):
    path = tmp_path / "generation_config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"generation_config\.json: {reason}"):
        read_defaults(path)


def test_reading_defaults_imports_no_array_library():
    check = "import sys, pipelines.nodes.generation.model_settings; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_what_is_said_of_guesses(read):
    stated = {"num_assistant_tokens": 5, "assistant_confidence_threshold": 0.4, "max_ngram_size": 3}
    assert read(**stated) == {"num_draft_tokens": 5, "draft_threshold": 0.4, "max_ngram": 3}


def test_no_guesses_are_nothing_said_and_too_many_are_fewer(read):
    assert read(num_assistant_tokens=0, assistant_confidence_threshold=0.0, max_ngram_size=0) == {}
    assert read(num_assistant_tokens=100, max_ngram_size=10) == {"num_draft_tokens": 32, "max_ngram": 8}


def test_suppressed_tokens_are_ids(read):
    stated = {"suppress_tokens": [1, 2], "begin_suppress_tokens": [3]}
    assert read(**stated) == {"bad_words_ids": [[1], [2]], "begin_suppress_ids": [3]}
    with pytest.raises(ValueError, match="suppress_tokens must be a list of token ids"):
        read(suppress_tokens=[-1])
