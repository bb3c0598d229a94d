"""Runs the held-out questions and counts right replies by skill."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .conversation import Conversation, Expectation
from .rendering import prompt_of

HELD_OUT_PATH = Path(__file__).with_name("held_out.jsonl")
"""Questions with phrasings that are not in the training data."""
UNKNOWN_WORDS_PATH = Path(__file__).with_name("held_out_unknown_words.jsonl")
"""Questions with phrasings, names, cities, words and tools that are not in the training data."""
TOOL_CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)

Ask = Callable[[list[Conversation]], list[str]]


@dataclass(frozen=True)
class Score:
    """`num_right <= num_asked`; `wrong` holds (prompt, reply) of the others."""

    skill: str
    num_right: int
    num_asked: int
    wrong: list[tuple[str, str]]


def measure(questions: list[Conversation], ask: Ask) -> list[Score]:
    """One score per skill, in the order of the questions."""
    prompts = [prompt_of(question) for question in questions]
    replies = ask(questions)
    scores = []
    for skill in dict.fromkeys(question.skill for question in questions):
        asked = [trio for trio in zip(questions, prompts, replies, strict=True) if trio[0].skill == skill]
        wrong = [(prompt, reply) for question, prompt, reply in asked if not is_right(question, reply)]
        scores.append(Score(skill, len(asked) - len(wrong), len(asked), wrong))
    return scores


def is_right(question: Conversation, reply: str) -> bool:
    """Whether the reply meets the expectation, and has reasoning if and only if it was requested."""
    thought, _, content = reply.rpartition("</think>")
    if bool(thought.removeprefix("<think>").strip()) != question.thinking:
        return False
    return _CHECKS[question.expect.kind](content.strip(), question.expect.value)


def save_questions(questions: Iterable[Conversation], path: Path = HELD_OUT_PATH) -> None:
    """One question per line; its last message is stored as an example of a right reply."""
    lines = (json.dumps(asdict(question), ensure_ascii=False) for question in questions)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def load_questions(path: Path = HELD_OUT_PATH) -> list[Conversation]:
    """The committed held-out questions."""
    return [_conversation(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _conversation(fields: dict[str, Any]) -> Conversation:
    return Conversation(**fields | {"expect": Expectation(**fields["expect"])})


def _contains(content: str, words: list[str]) -> bool:
    return all(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", content, re.IGNORECASE) for word in words)


def _last_number(content: str, number: int) -> bool:
    numbers = re.findall(r"(?<!\d)(?:-(?=\d))?\d+", content)
    return bool(numbers) and int(numbers[-1]) == number


def _same_json(content: str, value: Any) -> bool:
    try:
        return bool(json.loads(content) == value)
    except ValueError:
        return False


def _same_calls(content: str, calls: list[dict[str, Any]]) -> bool:
    try:
        return [json.loads(call) for call in TOOL_CALL.findall(content)] == calls
    except ValueError:
        return False


_CHECKS: dict[str, Callable[[str, Any], bool]] = {
    "contains": _contains,
    "number": _last_number,
    "json": _same_json,
    "calls": _same_calls,
    "exact": lambda content, text: bool(content == text),
    "one_of": lambda content, texts: content in texts,
}
