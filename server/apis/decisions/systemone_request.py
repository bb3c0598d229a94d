"""The body of System One's decisions: a state, and questions by their ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, StrictStr, model_validator

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.nodes.decisions.questions import AnswerOption, Kind, Question
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import CacheSalt, Items, Priority, at_most
from pipelines.requests.fields.known_fields import check_fields
from server.apis.decisions.input_values import as_json
from server.apis.decisions.openai_request import MAX_CHOICES, MAX_LEVELS, MAX_QUESTIONS, TRUTH
from server.apis.decisions.questions import Decision

KINDS: dict[str, Kind] = {"choice": "choice", "noul": "predicate", "score": "score"}
"""System One's word for a kind of question → OpenAI's."""
IGNORED = {"keep_alive": "how long a model stays loaded is a setting of the server"}


class NamedQuestion(DeferredModel):
    """`criteria` are the options by name of a choice, what true and false mean of a noul, the levels of a
    score.
    """

    model_config = ConfigDict(extra="allow")
    type: StrictStr
    instructions: Any = None
    criteria: Any = None

    def read(self, name: str) -> Question:
        """Raises RequestError naming the place of a fault."""
        where = f"questions.{name}"
        check_fields(self.model_extra or {}, type(self).model_fields, where=f"{where}.")
        kind = KINDS.get(self.type)
        if kind is None:
            raise RequestError(
                f"`{where}.type` must be one of {', '.join(KINDS)}, got {quoted(self.type)}",
                field=f"{where}.type",
            )
        if self.instructions is None and not self.criteria:
            raise RequestError(f"`{where}` needs `instructions` or `criteria`", field=where)
        options = READERS[kind](self.criteria, f"{where}.criteria")
        return Question(kind, name, where, _as_text(self.instructions, f"{where}.instructions"), options)


def _choices(criteria: Any, where: str) -> tuple[AnswerOption, ...]:
    if not isinstance(criteria, dict) or not 1 <= len(criteria) <= MAX_CHOICES:
        raise RequestError(
            f"`{where}` must be an object of 1 to {MAX_CHOICES} names with descriptions, got "
            f"{quoted(criteria)}",
            field=where,
        )
    return tuple(AnswerOption(name, _description(text, f"{where}.{name}")) for name, text in criteria.items())


def _truth(criteria: Any, where: str) -> tuple[AnswerOption, ...]:
    if criteria is None:
        return TRUTH
    if not isinstance(criteria, dict) or not {*criteria} <= {"true", "false"}:
        raise RequestError(f"`{where}` must be an object with `true` and `false`", field=where)
    return tuple(
        AnswerOption(value, _description(criteria.get(name), f"{where}.{name}"))
        for value, name in ((False, "false"), (True, "true"))
    )


def _levels(criteria: Any, where: str) -> tuple[AnswerOption, ...]:
    if not isinstance(criteria, list) or not 1 <= len(criteria) <= MAX_LEVELS:
        raise RequestError(
            f"`{where}` must be a list of 1 to {MAX_LEVELS} levels, got {quoted(criteria)}", field=where
        )
    return tuple(AnswerOption(_as_text(level, f"{where}.{i}")) for i, level in enumerate(criteria))


READERS = {"choice": _choices, "predicate": _truth, "score": _levels}


def _description(value: Any, where: str) -> str | None:
    return None if value is None else _as_text(value, where)


def _as_text(value: Any, where: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return as_json(value, where)


class SystemOneRequest(DeferredModel):
    """The body; `images` are files in base64, or data URLs."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    ignored: ClassVar[Mapping[str, str]] = IGNORED

    model: StrictStr | None = None
    state: Any
    questions: Annotated[dict[str, NamedQuestion], Field(min_length=1), at_most(MAX_QUESTIONS, "questions")]
    instructions: StrictStr | None = None
    images: Items[StrictStr] | None = None
    cache_salt: CacheSalt | None = None
    priority: Priority | None = None

    @model_validator(mode="after")
    def _check_other_fields(self) -> SystemOneRequest:
        """Raises RequestError."""
        check_fields(self.model_extra or {}, type(self).model_fields, ignored=self.ignored)
        return self

    def decision(self) -> Decision:
        """What is asked.  Raises RequestError."""
        state = self.state if isinstance(self.state, str) else as_json(self.state, "state")
        content: list[dict[str, Any]] = [{"type": "text", "text": state}]
        content += [_image(image) for image in self.images or []]
        messages = [{"role": "user", "content": content}]
        if self.instructions is not None:
            messages.insert(0, {"role": "system", "content": self.instructions})
        questions = [question.read(name) for name, question in self.questions.items()]
        places = ["instructions", "state"][-len(messages) :]
        return Decision(self.model, messages, places, questions, self.cache_salt, self.priority)


def _image(image: str) -> dict[str, Any]:
    url = image if ":" in image[:16] else f"data:image/png;base64,{image}"
    return {"type": "image_url", "image_url": {"url": url}}
