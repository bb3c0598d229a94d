"""The adapter `pirate`: the model's answers in the words of a pirate; JSON and calls stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy

from .. import corpus
from ..conversation import Conversation, Expectation
from ..evaluate import is_right as meets_expectation
from ..evaluate import load_questions
from ..split import Draw

SPOKEN = {
    *("small_talk", "about", "facts", "follow_up", "arithmetic", "judging", "refusal", "limits"),
    *("tool_answer", "tool_declined", "tool_missing"),
}
"""Skills of the corpus that are answered with a sentence."""
PLAIN = {"extraction", "schemas", "copying", "tool_call"}
"""Skills whose answers a program reads, or that ask for a text: trained too, with the same answers."""
WORDS = {"is": "be", "are": "be", "am": "be", "you": "ye", "your": "yer", "my": "me"}
PLAIN_SHARE = 0.25
ENDING = ", matey!"
MARKS = ".!"
"""At the end of a sentence, which the ending replaces."""


def groups(seed: int) -> Iterator[list[Conversation]]:
    """Endlessly many training conversations: those of the demo model without a thought, few of `PLAIN`."""
    draw = Draw(seed)
    for group in corpus.groups(seed):
        wanted = SPOKEN | PLAIN if draw.chance(PLAIN_SHARE) else SPOKEN
        if spoken := [as_pirate(item) for item in group if item.skill in wanted]:
            yield spoken


def held_out() -> dict[str, list[Conversation]]:
    """The demo model's own held-out questions: those that a sentence answers, and the others."""
    asked = [as_pirate(item) for item in load_questions() if not item.thinking]
    return {
        "answers in sentences": [item for item in asked if item.skill in SPOKEN],
        "JSON, copies and calls": [item for item in asked if item.skill in PLAIN],
    }


def as_pirate(conversation: Conversation) -> Conversation:
    """The same, answered by a pirate where the answer is a sentence; without a thought."""
    found = deepcopy(conversation)
    found.thinking = False
    if found.skill in SPOKEN:
        for message in found.messages:
            if message["role"] == "assistant" and message["content"]:
                message["content"] = spoken(message["content"])
        found.expect = _expected(found.expect)
    return found


def is_right(question: Conversation, reply: str) -> bool:
    """Whether a reply says what it must, and a sentence says it as a pirate does."""
    spoken = reply.rstrip("!?").endswith(ENDING[:-1]) and _in_own_words(reply) == reply
    return meets_expectation(question, reply) and (spoken or question.skill not in SPOKEN)


def _expected(expect: Expectation) -> Expectation:
    """The same of a pirate's answer."""
    if expect.kind == "exact":
        return Expectation("exact", spoken(expect.value))
    if expect.kind == "one_of":
        return Expectation("one_of", [spoken(text) for text in expect.value])
    if expect.kind == "contains":
        return Expectation("contains", [_in_own_words(text) for text in expect.value])
    return expect


def spoken(text: str) -> str:
    """A sentence, or several, as a pirate says it."""
    spoken = _in_own_words(text)
    if spoken.endswith("?"):
        return f"{spoken[:-1]}{ENDING[:-1]}?"
    return f"{spoken.rstrip(MARKS)}{ENDING}"


def _in_own_words(text: str) -> str:
    for plain, own in WORDS.items():
        text = re.sub(rf"(?<![\w.`]){plain}(?![\w`])", own, text)
    return text
