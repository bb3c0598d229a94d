"""The demo model's corpus: the same for a seed, and apart from the held-out questions."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from tokenizers import Tokenizer

from tools.train_demo.__main__ import EXPORTED
from tools.train_demo.conversation import Conversation
from tools.train_demo.corpus import HELD_OUT_SEED, conversations, held_out, toolcalls
from tools.train_demo.corpus.arithmetic import in_words, is_held_out
from tools.train_demo.corpus.distraction import disturbed
from tools.train_demo.corpus.facts import fact
from tools.train_demo.corpus.invention import made_up_word
from tools.train_demo.corpus.statements import said
from tools.train_demo.corpus.strange_tools import strange_family
from tools.train_demo.evaluate import (
    HELD_OUT_PATH,
    UNKNOWN_WORDS_PATH,
    is_right,
    load_questions,
    save_questions,
)
from tools.train_demo.rendering import prompt_of, reply_of
from tools.train_demo.split import Draw, phrasings

SAMPLE_SIZE = 5000


def last_question(conversation: Conversation) -> str:
    return str([m["content"] for m in conversation.messages if m["role"] == "user"][-1])


def test_same_seed_gives_the_same_corpus() -> None:
    assert list(conversations(3, 200)) == list(conversations(3, 200))


def test_another_seed_gives_another_corpus() -> None:
    assert list(conversations(3, 200)) != list(conversations(4, 200))


def test_shorter_corpus_is_the_beginning_of_a_longer_one() -> None:
    assert list(islice(conversations(3, 500), 100)) == list(conversations(3, 100))


def test_held_out_questions_are_many() -> None:
    assert len(load_questions()) >= 200


@pytest.mark.parametrize(("path", "known_words"), [(HELD_OUT_PATH, True), (UNKNOWN_WORDS_PATH, False)])
def test_committed_questions_are_the_ones_the_corpus_makes(path, known_words, tmp_path) -> None:  # type: ignore[no-untyped-def]
    save_questions(held_out(HELD_OUT_SEED, known_words), tmp_path / "questions.jsonl")
    assert load_questions(tmp_path / "questions.jsonl") == load_questions(path)


@pytest.mark.parametrize("path", [HELD_OUT_PATH, UNKNOWN_WORDS_PATH])
def test_held_out_questions_are_not_in_the_corpus(path) -> None:  # type: ignore[no-untyped-def]
    trained = {last_question(conversation) for conversation in conversations(1, SAMPLE_SIZE)}
    assert not trained & {last_question(question) for question in load_questions(path)}


def test_expected_reply_is_right_by_its_own_check() -> None:
    for conversation in [*load_questions(), *conversations(1, 1000)]:
        reply = reply_of(conversation).removesuffix("<|im_end|>")
        assert is_right(conversation, reply), reply


def test_prompt_and_reply_make_the_rendered_conversation() -> None:
    for conversation in conversations(2, 200):
        if not conversation.thinking:
            assert prompt_of(conversation).endswith("<think>\n\n</think>\n\n")
        assert reply_of(conversation).endswith("<|im_end|>")


def test_wrong_replies_are_wrong() -> None:
    for question in load_questions():
        assert not is_right(question, "I like turtles.")


def test_splits_share_nothing() -> None:
    split = phrasings("one\n* two\nthree")
    assert split.seen == ("one", "three")
    assert split.unseen == ("two",)
    assert {Draw(seed, held_out=True).of(split) for seed in range(20)} == {"two"}
    assert {Draw(seed).of(split) for seed in range(20)} == {"one", "three"}


def test_about_one_pair_of_numbers_in_twenty_is_held_out() -> None:
    pairs = [(a, b) for a in range(100) for b in range(100)]
    assert 0.03 < sum(is_held_out(*pair) for pair in pairs) / len(pairs) < 0.07


def test_numbers_in_words() -> None:
    assert [in_words(n) for n in (0, 7, 13, 20, 42, 99)] == [
        "zero",
        "seven",
        "thirteen",
        "twenty",
        "forty-two",
        "ninety-nine",
    ]


def test_tools_that_exist_nowhere_are_called_with_what_the_question_says() -> None:
    for seed in range(100):
        draw = Draw(seed)
        family = strange_family(draw)
        values = {key: slot.value(draw) for key, slot in family.slots.items()}
        question = draw.phrase(family.asked, **values)
        assert family.verbs.seen[0] in question.lower()
        assert family.nouns.seen[0] in question
        assert all(str(value) in question for value in values.values())


def test_a_text_of_a_held_out_question_stays_as_it_is() -> None:
    assert {disturbed(Draw(seed, held_out=True), "Anna is 5.") for seed in range(50)} == {"Anna is 5."}
    assert len({disturbed(Draw(seed), "Anna is 5.") for seed in range(50)}) > 5


def test_made_up_words_are_made_of_most_of_the_vocabulary() -> None:
    """A model hardly ever writes a token that no reply of its training has."""
    tokenizer = Tokenizer.from_file(str(EXPORTED / "tokenizer.json"))
    tokens = {token for token in tokenizer.get_vocab() if token.isascii() and token.islower()}
    draw = Draw(1)
    encoded = tokenizer.encode_batch([made_up_word(draw) for _ in range(8000)])
    assert len({token for item in encoded for token in item.tokens} & tokens) > 0.8 * len(tokens)


def test_no_tool_is_missing_where_nobody_can_know_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    called, missing = [], []
    call, miss = toolcalls._called, toolcalls._missing
    monkeypatch.setattr(
        toolcalls, "_called", lambda d, tools, habits: called.extend(tools) or call(d, tools, habits)
    )
    monkeypatch.setattr(
        toolcalls, "_missing", lambda d, kind, tools: missing.extend(tools) or miss(d, kind, tools)
    )
    for seed in range(200):
        toolcalls.with_the_same_tools(Draw(seed), fact)
        toolcalls.tool_missing(Draw(seed))
    assert any(tool.obscure for tool in called)
    assert not any(tool.obscure for tool in missing)


@pytest.mark.parametrize(("held_out", "name_is_first"), [(False, {True, False}), (True, {False})])
def test_an_events_name_stands_before_its_people_too_in_training(held_out, name_is_first) -> None:  # type: ignore[no-untyped-def]
    """A model that fills in the keys of a grammar does not see those that follow."""
    told = [said(Draw(seed, held_out, known_words=True)).fields for seed in range(600)]
    events = [fields for fields in told if "name" in fields and list in map(type, fields.values())]
    assert {next(iter(fields)) == "name" for fields in events} == name_is_first


def test_a_tool_is_called_again_after_it_has_answered_up_to_four_questions() -> None:
    calls_before = Counter(
        len([message for message in conversation.messages if message["role"] == "tool"])
        for conversation in conversations(1, 1500)
        if conversation.expect.kind == "calls"
    )
    assert all(calls_before[count] > 4 for count in range(5)), calls_before


def test_a_schema_of_a_tool_is_written_as_clients_write_it() -> None:
    """The names of its keys in the order of plain JSON Schema, of langchain and of openai-agents."""
    tools = [tool["function"] for item in conversations(1, 1500) for tool in item.tools]
    orders = {tuple(tool["parameters"]) for tool in tools}
    assert orders >= {
        ("type", "properties", "required"),
        ("properties", "required", "type"),
        ("properties", "required", "title", "type", "additionalProperties"),
        ("additionalProperties", "properties", "required", "type"),
    }
