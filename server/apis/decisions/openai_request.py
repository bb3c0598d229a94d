"""The body of OpenAI's decisions: an input, and a list of questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, StrictBool, StrictStr, model_validator

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.nodes.decisions.questions import AnswerOption, Kind, Question
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import CacheSalt, Items, Number, Priority, at_most, check
from pipelines.requests.fields.known_fields import IGNORED as IGNORED_GENERATION
from pipelines.requests.fields.known_fields import check_fields
from server.apis.decisions.input_values import plain_parts, read_instructions
from server.apis.decisions.questions import Decision
from server.apis.responses.chat_messages import ChatMessages
from server.apis.responses.input_items import read_items
from server.apis.responses.tool_table import ToolTable

MAX_QUESTIONS = 400
MAX_CHOICES = 255
MAX_LEVELS = 10
IGNORED: dict[str, str] = {
    name: IGNORED_GENERATION[name]
    for name in ("safety_identifier", "prompt_cache_key", "prompt_cache_options", "user", "metadata")
}
"""Field → why it is accepted without effect."""
TRUTH = (AnswerOption(False), AnswerOption(True))
"""The options of a predicate."""

Share = Annotated[Number, check(lambda share: 0 <= share <= 1, "{name} must be in [0, 1], got {got}.")]


class _Fields(DeferredModel):
    model_config = ConfigDict(extra="allow", protected_namespaces=())


class GivenChoice(_Fields):
    value: StrictBool | StrictStr
    description: StrictStr | None = None


class Level(_Fields):
    label: StrictStr
    description: StrictStr | None = None


class AskedQuestion(_Fields):
    """A question as the client wrote it; `choices` belong to a choice, `levels` to a score."""

    type: Kind
    instructions: Any
    name: StrictStr | None = None
    choices: Annotated[Items[GivenChoice], at_most(MAX_CHOICES, "choices")] | None = None
    levels: Annotated[Items[Level], at_most(MAX_LEVELS, "levels")] | None = None

    def read(self, where: str) -> Question:
        """Raises RequestError naming the place of a fault."""
        check_fields(self.model_extra or {}, type(self).model_fields, where=f"{where}.")
        text, images = read_instructions(self.instructions, f"{where}.instructions")
        return Question(self.type, self.name, where, text, self._options(where), images)

    def _options(self, where: str) -> tuple[AnswerOption, ...]:
        for kind, name, options in (("choice", "choices", self.choices), ("score", "levels", self.levels)):
            if (options is None) == (self.type == kind):
                fault = "is required in" if self.type == kind else "is no field of"
                raise RequestError(f"`{where}.{name}` {fault} a {self.type}", field=f"{where}.{name}")
            if options is not None and len(options) < 2:
                raise RequestError(f"`{where}.{name}` must hold at least 2", field=f"{where}.{name}")
        if self.type == "predicate":
            return TRUTH
        if self.type == "score":
            return tuple(AnswerOption(level.label, level.description) for level in self.levels or ())
        return self._choices(f"{where}.choices")

    def _choices(self, where: str) -> tuple[AnswerOption, ...]:
        options = tuple(AnswerOption(each.value, each.description) for each in self.choices or ())
        values = [(type(option.value), option.value) for option in options]
        if len(set(values)) < len(values):
            raise RequestError(f"`{where}` holds a value twice", field=where)
        return options


class DecisionRequest(_Fields):
    """The body; `min_label_mass` is Braid's own: a question whose labels together are less probable after
    the prompt is refused.
    """

    ignored: ClassVar[Mapping[str, str]] = IGNORED

    model: StrictStr | None = None
    input: Any
    questions: Annotated[Items[AskedQuestion], Field(min_length=1), at_most(MAX_QUESTIONS, "questions")]
    cache_salt: CacheSalt | None = None
    priority: Priority | None = None
    min_label_mass: Share | None = None

    @model_validator(mode="after")
    def _check_other_fields(self) -> DecisionRequest:
        """Raises RequestError."""
        check_fields(self.model_extra or {}, type(self).model_fields, ignored=self.ignored)
        return self

    def decision(self) -> Decision:
        """What is asked.  Raises RequestError."""
        messages = self._messages()
        questions = [each.read(f"questions.{i}") for i, each in enumerate(self.questions)]
        return Decision(
            self.model, messages.messages, messages.places, questions, self.cache_salt, self.priority
        )

    def _messages(self) -> ChatMessages:
        if not isinstance(self.input, str | list) or not self.input:
            raise RequestError(
                f"`input` must be text or a list of items, and not empty; got {quoted(self.input)}",
                field="input",
            )
        messages = ChatMessages(ToolTable(), takes_images=True)
        plain = self.input if isinstance(self.input, str) else [*map(_plain_item, self.input)]
        for i, item in enumerate(read_items(plain, _no_reference)):
            messages.add(item, "input" if isinstance(self.input, str) else f"input.{i}")
        return messages


def _plain_item(item: Any) -> Any:
    """An item whose parts of JSON are text."""
    if not isinstance(item, dict):
        return item
    parts = {name: plain_parts(item[name], f"input.{name}") for name in ("content", "output") if name in item}
    return item | parts


def _no_reference(item_id: str, where: str) -> dict[str, Any]:
    raise RequestError(f"`{where}`: items are not stored here; send the item itself", field=where)
