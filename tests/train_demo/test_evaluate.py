"""What counts as a right reply to a held-out question."""

from __future__ import annotations

from typing import Any

import pytest

from tools.train_demo.conversation import Conversation, Expectation
from tools.train_demo.evaluate import is_right, measure

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def question(kind: Any, value: Any, thinking: bool = False) -> Conversation:
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
    return Conversation("some", messages, Expectation(kind, value), thinking=thinking)


@pytest.mark.parametrize(
    ("kind", "value", "reply"),
    [
        ("contains", ["Paris"], "The capital of France is Paris."),
        ("contains", ["4"], "A cat has 4 legs."),
        ("number", 12, "7 + 5 = 12"),
        ("number", -3, "4 - 7 = -3"),
        ("json", {"a": 1, "b": "c"}, '{"b": "c", "a": 1}'),
        ("calls", [{"name": "get_weather", "arguments": {"city": "Oslo"}}], CALL),
        ("exact", "Hi", "Hi"),
        ("one_of", ["Hi", "Hello"], "Hello"),
    ],
)
def test_right(kind: str, value: Any, reply: str) -> None:
    assert is_right(question(kind, value), reply)


@pytest.mark.parametrize(
    ("kind", "value", "reply"),
    [
        ("contains", ["Paris"], "The capital of France is Parisville."),
        ("contains", ["4"], "A cat has 14 legs."),
        ("number", 12, "12 + 5 = 17"),
        ("number", 3, "No numbers here"),
        ("json", {"a": 1}, '{"a": "1"}'),
        ("json", {"a": 1}, '{"a": 1'),
        ("calls", [{"name": "get_weather", "arguments": {"city": "Oslo"}}], CALL.replace("Oslo", "Rome")),
        ("calls", [{"name": "get_weather", "arguments": {"city": "Oslo"}}], CALL + "\n" + CALL),
        ("calls", [{"name": "get_weather", "arguments": {"city": "Oslo"}}], CALL.replace("}}", "}")),
        ("exact", "Hi", "Hi."),
        ("one_of", ["Hi", "Hello"], "Hey"),
    ],
)
def test_wrong(kind: str, value: Any, reply: str) -> None:
    assert not is_right(question(kind, value), reply)


def test_thinking_is_wanted_only_where_it_is_asked_for() -> None:
    thought = "<think>\nEasy.\n</think>\n\nHi"
    assert is_right(question("exact", "Hi", thinking=True), thought)
    assert not is_right(question("exact", "Hi"), thought)
    assert not is_right(question("exact", "Hi", thinking=True), "Hi")


def test_measure_counts_by_skill() -> None:
    (score,) = measure(
        [question("exact", "Hi"), question("exact", "Ho")], lambda prompts: ["Hi"] * len(prompts)
    )
    assert (score.skill, score.num_right, score.num_asked) == ("some", 1, 2)
    assert [reply for _, reply in score.wrong] == ["Hi"]
