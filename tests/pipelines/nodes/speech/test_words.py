"""Tokens as words, and the frames with which they begin: beside what transformers makes of the same."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from ctranslate2_files import whisper_tokenizer
from tokenizers import Tokenizer
from transformers.models.whisper import generation_whisper, tokenization_whisper

from pipelines.nodes.speech.alignment import cheapest_path, first_frames, median_filtered
from pipelines.nodes.speech.word_times import with_times
from pipelines.nodes.speech.words import TokenWord, split_words, with_punctuation

TOKENIZER = Tokenizer.from_str(json.dumps(whisper_tokenizer()))


def decode(token_ids):
    return TOKENIZER.decode(list(token_ids), skip_special_tokens=False)


@pytest.mark.parametrize(
    ("language", "name", "text"),
    [
        ("en", "english", ' He said: "no, it\'s (not) over" - at 10.50, 20%!'),
        ("es", "spanish", " ¿Qué? ¡Sí! - dijo él..."),
        ("de", "german", " \u201eGr\u00fc\u00dfe\u201c  an  \U0001f600 alle ."),
        ("zh", "chinese", "你好，世界。（好）"),
        ("ja", "japanese", "“今日は”と、言った!"),
        ("en", "english", "x"),
    ],
)
def test_words_are_those_of_transformers(language, name, text):
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids
    shim = SimpleNamespace(decode=lambda tokens, decode_with_timestamps: decode(tokens), eos_token_id=50257)
    wanted, _, _ = tokenization_whisper._combine_tokens_into_words(shim, ids, name)
    assert [word.text for word in with_punctuation(split_words(ids, decode, language))] == wanted
    assert [token for word in split_words(ids, decode, language) for token in word.token_ids] == ids


def test_a_character_that_is_cut_off_is_a_word():
    ids = TOKENIZER.encode(" a é", add_special_tokens=False).ids[:-1]
    assert sum(len(word.token_ids) for word in split_words(ids, decode, "en")) == len(ids)


def test_the_filter_is_that_of_transformers():
    values = np.random.default_rng(0).standard_normal((2, 3, 40)).astype(np.float32)
    wanted = generation_whisper._median_filter(torch.tensor(values)[None], 7)[0].numpy()
    np.testing.assert_array_equal(median_filtered(values), wanted)
    assert median_filtered(values[..., :3]).shape == (2, 3, 3)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (7, 30), (12, 5)])
def test_the_path_is_that_of_transformers(shape):
    costs = np.random.default_rng(1).standard_normal(shape)
    for found, wanted in zip(
        cheapest_path(costs), generation_whisper._dynamic_time_warping(costs), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def test_tokens_begin_where_they_attend_to():
    weights = np.full((2, 6, 60), 0.01, np.float32)
    for row in range(2, 6):
        weights[:, row, 15 * (row - 2) : 15 * (row - 1)] = 1
    assert first_frames(weights, 3).tolist() == [0, 15, 30, 45]
    assert first_frames(np.zeros_like(weights), 3).tolist() == sorted(first_frames(weights * 0, 3))


def test_the_ends_of_a_segment_are_not_silence():
    first = [TokenWord(" a", 0, [1]), TokenWord(" bc", 1, [2, 3]), TokenWord(",", 3, [4])]
    starts_s = [0.0, 2.0, 2.2, 2.4, 2.5, 3.0]
    found, rest = with_times([first, [TokenWord(" d", 4, [5, 6])]], starts_s)
    assert [word.text for word in found] == ["a", "bc,"]
    usual_s = 0.45  # of 2, 0.4, 0.1 and 0.5 seconds
    assert found[0][1:] == (pytest.approx(2.0 - 2 * usual_s), 2.0)
    assert found[1][1:] == (2.0, 2.4)
    assert rest == [("d", 2.5, 3.0)]  # of the last token no time is known
