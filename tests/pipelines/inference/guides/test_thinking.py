"""Reasoning that is bounded, and answers that keep to a grammar only after it."""

from __future__ import annotations

import pytest
from guide_rig import ENDS, allowed, schema, text_of, tokens

from pipelines.inference.contracts.guide import GuideError
from pipelines.inference.guides.guide_compiler import GuideCompiler
from pipelines.wire.sampling_params import GuideSpec, SamplingParams, Thinking

ANSWER = {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2}
CLOSE = 2041
MARKS = [("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("Here I think:", "Here I answer:")]


def guide(thinking=None, grammar=None, **params):
    spec = GuideSpec(grammar, thinking)
    return GuideCompiler(tokens()).maker(spec, SamplingParams(**params))()


def answer() -> str:
    return schema(ANSWER, disable_any_whitespace=True)


def feed(found, text: str) -> list[int]:
    """Append a text's tokens; what was forced after the last of them."""
    forced: list[int] = []
    for token_id in tokens().spell(text):
        assert token_id in allowed(found)
        forced = found.append(token_id)
    return forced


def only_the_end_is_left(found) -> bool:
    """Where log-probabilities are asked for, the end is a token like others; it is drawn, not forced."""
    assert not found.finished
    assert list(allowed(found)) == [tokens().end_id]
    assert found.append(tokens().end_id) == []
    return found.finished


def first_token(text: str) -> int:
    return tokens().spell(text)[0]


@pytest.mark.parametrize(("start", "end"), MARKS)
@pytest.mark.parametrize("opened", [True, False])
def test_the_grammar_holds_after_the_closing_mark(start, end, opened):
    found = guide(Thinking(start, end, opened), answer(), logprobs=0)
    feed(found, ("" if opened else start) + "well, 3 < 4" + end)
    assert all(text_of([token_id]).startswith("[") for token_id in allowed(found))
    feed(found, "[true]")
    assert only_the_end_is_left(found)


@pytest.mark.parametrize(("start", "end"), MARKS)
def test_what_did_not_open_its_reasoning_may_answer_at_once(start, end):
    found = guide(Thinking(start, end), answer(), logprobs=0)
    assert first_token(start) in allowed(found)
    assert first_token("[true]") in allowed(found)
    assert first_token("Hello") not in allowed(found)
    feed(found, "[false,true]")
    assert only_the_end_is_left(found)


def test_a_token_that_begins_both_decides_nothing():
    found = guide(Thinking("[x]", "[/x]"), answer(), logprobs=0)
    found.append(first_token("["))
    assert {first_token("x"), first_token("true")} <= allowed(found)
    feed(found, "x]so[/x][true]")
    assert only_the_end_is_left(found)


def test_nothing_ends_in_the_middle_of_its_reasoning_where_an_answer_must_come():
    found = guide(Thinking("<think>", "</think>", opened=True), answer())
    assert not ENDS & allowed(found)
    assert allowed(guide(Thinking("<think>", "</think>", opened=True, budget=5))) >= ENDS


@pytest.mark.parametrize(("start", "end"), MARKS)
@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize("grammar", [True, False])
def test_a_spent_budget_forces_the_closing_mark(start, end, opened, grammar):
    found = guide(Thinking(start, end, opened, budget=3), answer() if grammar else None)
    if not opened:
        feed(found, start)
    words = [first_token(word) for word in (" the", " of", " and")]
    assert found.append(words[0]) == []
    assert found.append(words[1]) == []
    forced = found.append(words[2])
    assert text_of(forced).startswith(end)
    assert found.restricts() == grammar


def test_without_forcing_the_masks_say_the_same():
    found = guide(Thinking("[T]", "[/T]", opened=True, budget=1), logprobs=0)
    assert found.append(first_token(" the")) == []
    said = []
    while found.restricts():
        (token_id,) = allowed(found)
        assert found.append(token_id) == []
        said.append(token_id)
    assert text_of(said) == "[/T]"


@pytest.mark.parametrize("opened", [True, False])
def test_a_budget_of_nothing_closes_at_once(opened):
    found = guide(Thinking("<think>", "</think>", opened, budget=0))
    if not opened:
        feed(found, "<think>")
    assert allowed(found) == {CLOSE}
    found.append(CLOSE)
    assert not found.restricts()


def test_a_mark_that_has_begun_is_completed():
    found = guide(Thinking("[T]", "[/T]", opened=True, budget=2))
    found.append(first_token(" the"))
    assert text_of(found.append(first_token("["))) == "/T]"


def test_a_mark_that_came_by_itself_is_not_forced_again():
    found = guide(Thinking("<think>", "</think>", opened=True, budget=4))
    feed(found, " the</think>")
    assert [found.append(first_token(" of")) for _ in range(6)] == [[]] * 6


def test_a_sequence_that_does_not_think_is_not_bounded():
    found = guide(Thinking("<think>", "</think>", budget=1))
    feed(found, "Hello")
    assert [found.append(first_token(" of")) for _ in range(4)] == [[]] * 4
    assert not found.restricts()


def test_space_before_the_opening_mark_is_no_answer():
    found = guide(Thinking("<think>", "</think>", budget=1))
    feed(found, "\n<think>")
    assert text_of(found.append(first_token(" of"))) == "</think>"


def test_space_behind_the_closing_mark_belongs_to_nothing():
    found = guide(Thinking("(", "):", opened=True), answer(), logprobs=0)
    found.append(first_token(" of"))
    for token_id in tokens().tokenizer.greedy_tokenize("):"):
        found.append(token_id)
    feed(found, "[true]")
    assert only_the_end_is_left(found)


def test_a_token_that_is_not_allowed_is_an_error_of_this_sequence():
    with pytest.raises(GuideError, match="the grammar could not be followed"):
        guide(None, answer()).append(first_token("Hello"))
