"""Tokens as words, and the frames with which they begin: beside what transformers makes of the same."""

import json
import re
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from ctranslate2_files import whisper_tokenizer
from later import Later
from tokenizers import Tokenizer

from pipelines.nodes.speech.alignment import cheapest_path, first_frames, median_filtered
from pipelines.nodes.speech.word_times import with_times
from pipelines.nodes.speech.words import TokenWord, split_words, with_punctuation
from pipelines.values.reply_values import Segment

torch = Later("torch")
whisper = Later("transformers.models.whisper")

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
    wanted, _, _ = whisper.tokenization_whisper._combine_tokens_into_words(shim, ids, name)
    assert [word.text for word in with_punctuation(split_words(ids, decode, language))] == wanted
    assert [token for word in split_words(ids, decode, language) for token in word.token_ids] == ids


def test_a_character_that_is_cut_off_is_a_word():
    ids = TOKENIZER.encode(" a é", add_special_tokens=False).ids[:-1]
    assert sum(len(word.token_ids) for word in split_words(ids, decode, "en")) == len(ids)


def test_the_filter_is_that_of_transformers():
    from transformers.models.whisper import generation_whisper

    values = np.random.default_rng(0).standard_normal((2, 3, 40)).astype(np.float32)
    wanted = generation_whisper._median_filter(torch.tensor(values)[None], 7)[0].numpy()
    np.testing.assert_array_equal(median_filtered(values), wanted)
    assert median_filtered(values[..., :3]).shape == (2, 3, 3)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (7, 30), (12, 5)])
def test_the_path_is_that_of_transformers(shape):
    from transformers.models.whisper import generation_whisper

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


def timed(text, starts_s, *segments):
    """What `with_times` makes of words of one token each, spoken from `starts_s`; segments: words, from, to."""
    words = [TokenWord(word, at, [at]) for at, word in enumerate(re.findall(r" ?\w+|\W", text))]
    ends = np.cumsum([0, *(count for count, *_ in segments)]).tolist()
    heard = [Segment(begin, end, "", [0] * count, []) for count, begin, end in segments]
    return with_times([words[at:to] for at, to in pairwise(ends)], heard, starts_s)


def test_words_end_where_the_next_one_begins():
    starts_s = [0.1, 0.3, 0.6, 0.6, 0.9]
    assert timed(" a b, c", starts_s, (4, 0, 0.9)) == [[("a", 0.1, 0.3), ("b,", 0.3, 0.6), ("c", 0.6, 0.9)]]
    assert timed(" a b c", [0.1, 0.3], (2, 0, 1), (1, 1, 1)) == [
        [("a", 0.1, 0.3), ("b", 0.3, 0.3)],  # of the last token no time is known
        [("c", 0.3, 0.3)],
    ]


@pytest.mark.parametrize(
    ("text", "starts_s", "segments", "found"),
    [
        pytest.param(  # 0.2 s are the usual length
            *(" a b. c d", [0, 0.2, 0.4, 0.6, 2.4, 2.6], [(5, 0, 2.6)]),
            [("a", 0, 0.2), ("b.", 0.2, 0.4), ("c", 2.0, 2.4), ("d", 2.4, 2.6)],
            id="after a sentence",
        ),
        pytest.param(
            *(" a b c", [0, 2.0, 2.2, 2.4], [(3, 0, 2.4)]),
            [("a", 1.6, 2.0), ("b", 2.0, 2.2), ("c", 2.2, 2.4)],
            id="at the beginning",
        ),
        pytest.param(
            *(" a b c d", [0, 0.2, 2.0, 2.2, 2.4], [(4, 0, 2.4)]),
            [("a", 0, 0.2), ("b", 0.2, 2.0), ("c", 2.0, 2.2), ("d", 2.2, 2.4)],
            id="in the middle, where a word may be long",
        ),
        pytest.param(
            *(" a b c", [0, 1.1, 1.4, 1.7], [(3, 0.8, 1.7)]),
            [("a", 0.8, 1.1), ("b", 1.1, 1.4), ("c", 1.4, 1.7)],
            id="before the segment",
        ),
        pytest.param(
            *(" a b c", [0, 0.2, 0.4, 2.0], [(3, 0, 0.7)]),
            [("a", 0, 0.2), ("b", 0.2, 0.4), ("c", 0.4, 0.7)],
            id="after the segment",
        ),
    ],
)
def test_a_pause_is_no_part_of_a_word(text, starts_s, segments, found):
    assert timed(text, starts_s, *segments) == [found]
