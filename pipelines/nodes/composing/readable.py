"""What templates and tables of composing lines read: any value that has a text, as a template sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphs.flow import OneOf
from pipelines.nodes.text.templates.message_content import text_of
from pipelines.values.node_values import Classes, Prompt, Scores
from pipelines.values.reply_values import ReplyUpdate, SpeechUpdate, TextUpdate
from pipelines.values.search_values import Hit, Hits
from pipelines.values.stream_values import Deferred, Stream
from pipelines.values.tasks import PromptInput, SpeakInput

INNER_REQUEST = "the request of that model's task"
"""What the reference says of an input that goes to another model, whose task its type depends on."""
REQUEST = OneOf("a request with a text", (PromptInput, SpeakInput))
"""The type of an input that takes the request of the graph."""
PLAIN = (list, dict, str, float, int, bool, type(None))
STREAMS = (Stream[ReplyUpdate], Stream[TextUpdate], Stream[SpeechUpdate])
WHOLE = (Deferred[Hits], Deferred[Classes], Deferred[Scores])
READABLE = OneOf("a value with a text", (PromptInput, SpeakInput, *STREAMS, *WHOLE, *PLAIN))
"""The type of an input that takes any value that a template can show."""


class RequestView:
    """A request as a template sees it: as a text its last question, and its `messages`."""

    def __init__(self, request: PromptInput) -> None:
        self.messages = request.messages or []
        self._request = request

    def __str__(self) -> str:
        return question(self._request)


class PassageView(list[Hit]):
    """Passages as a template sees them: a list, as a text numbered from 1."""

    def __str__(self) -> str:
        return "\n\n".join(f"[{number}] {titled(hit)}" for number, hit in enumerate(self, 1))


class ClassView:
    """Classes of a text as a template sees them: `label` with its `score`, and all `scores` by label."""

    def __init__(self, scores: Mapping[str, float]) -> None:
        self.scores = dict(scores)
        self.label = max(self.scores, key=self.scores.__getitem__)
        self.score = self.scores[self.label]

    def __str__(self) -> str:
        return self.label


def view(value: Any) -> Any:
    """A value as templates see it: with fields to read, and as a text."""
    if isinstance(value, PromptInput):
        return RequestView(value)
    if isinstance(value, SpeakInput):
        return value.text
    if isinstance(value, Hits):
        return PassageView(value.found[0] if value.found else [])
    if isinstance(value, Classes):
        return ClassView(dict(zip(value.labels, value.values[0].tolist(), strict=True)))
    if isinstance(value, Scores):
        return value.values.tolist()
    if isinstance(value, list) and value and isinstance(value[0], Prompt):
        return value[0].text or ""
    return value


def question(request: PromptInput) -> str:
    """What a request asks: the text of its last message of a user, else of its first prompt."""
    asked = last_question(request.messages or [])
    if asked is not None:
        return text_of((request.messages or [])[asked].get("content"))
    return next((prompt.text or "" for prompt in request.prompts), "")


def last_question(messages: Sequence[Mapping[str, Any]]) -> int | None:
    """The place of the last message of a user; None where there is none."""
    return next((at for at in reversed(range(len(messages))) if messages[at].get("role") == "user"), None)


def text_in(value: Any) -> str:
    """The text of a value, without white space at its ends."""
    shown = view(value)
    return "" if shown is None else str(shown).strip()


def number_in(value: Any, label: str | None = None) -> float | None:
    """The number that a value is, or the probability of a class; of a list its length.  None of another."""
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, Classes):
        likeliest: ClassView = view(value)
        return likeliest.scores.get(likeliest.label if label is None else label)
    if isinstance(value, Scores):
        return float(value.values.max(initial=0.0))
    if isinstance(value, Hits):
        return max((hit.score for hit in view(value)), default=0.0)
    if isinstance(value, list | dict):
        return float(len(value))
    try:
        return float(text_in(value))
    except ValueError:
        return None


def titled(hit: Hit) -> str:
    """A passage below its heading."""
    return f"{hit.heading}\n{hit.text}" if hit.heading else hit.text
