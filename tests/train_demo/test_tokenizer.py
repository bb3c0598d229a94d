"""The demo model's tokenizer keeps digits apart, tags whole, and any text intact."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tools.train_demo.corpus import conversations
from tools.train_demo.rendering import prompt_of, reply_of
from tools.train_demo.tokenizer import TAGS, save_tokenizer, tool_passages, train_tokenizer, with_spaces_apart

VOCABULARY_SIZE = 600


@cache
def tokenizer() -> Tokenizer:
    texts = [prompt_of(item) + reply_of(item) for item in conversations(1, 300)]
    return train_tokenizer(texts, VOCABULARY_SIZE)


def test_vocabulary_has_the_size_asked_for() -> None:
    assert tokenizer().get_vocab_size() == VOCABULARY_SIZE


def test_digits_stand_alone() -> None:
    assert tokenizer().encode("12+345").tokens == ["1", "2", "+", "3", "4", "5"]


@pytest.mark.parametrize(
    "text", ["naïve 東京 🦜", "a\n\n  b\tc", '{"a": [1, 2]}', "<|im_start|>user\nHi<|im_end|>\n"]
)
def test_text_comes_back_as_it_was(text: str) -> None:
    assert tokenizer().decode(tokenizer().encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("tag", TAGS)
def test_tags_are_one_token_and_survive_decoding(tag: str) -> None:
    ids = tokenizer().encode(tag).ids
    assert len(ids) == 1
    assert tokenizer().decode(ids, skip_special_tokens=True) == tag


def test_turn_marks_do_not_survive_decoding() -> None:
    ids = tokenizer().encode("Hi<|im_end|>").ids
    assert tokenizer().decode(ids, skip_special_tokens=True) == "Hi"


def test_a_new_word_is_the_same_tokens_in_every_place() -> None:
    word = tokenizer().encode("zwobleq").tokens
    assert len(word) > 1
    for before in (" ", '"', "_", '{"'):
        assert tokenizer().encode(f"{before}zwobleq").tokens[-len(word) :] == word


def test_a_frequent_word_and_its_space_are_one_token() -> None:
    assert tokenizer().encode(" the is").tokens == ["Ġthe", "Ġis"]


def test_an_older_tokenizer_keeps_its_vocabulary() -> None:
    again = with_spaces_apart(tokenizer())
    assert again.get_vocab() == tokenizer().get_vocab()
    assert again.encode(' the zwobleq {"a": 1}').ids == tokenizer().encode(' the zwobleq {"a": 1}').ids


def test_tool_passages_are_one_token_each() -> None:
    before, after = tool_passages()
    assert before.startswith("# Tools")
    assert before.endswith("<tools>")
    assert after.startswith("</tools>")
    assert after.endswith("</tool_call>")
    assert [len(tokenizer().encode(passage).ids) for passage in (before, after)] == [1, 1]


def test_saved_tokenizer_says_how_turns_end(tmp_path: Path) -> None:
    save_tokenizer(tokenizer(), tmp_path, max_tokens=2048)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert settings["eos_token"] == "<|im_end|>"
    assert Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("Hi").ids
