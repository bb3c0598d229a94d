"""Questions with a fixed set of answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["predicate", "choice", "score"]
Value = str | bool


@dataclass(frozen=True, slots=True)
class AnswerOption:
    """One of the answers: `value` is what the reply has, `description` what it means."""

    value: Value
    description: str | None = None

    @property
    def text(self) -> str:
        """The option for a model to read; a text as JSON, so that "true" is not true."""
        shown = json.dumps(self.value, ensure_ascii=False)
        return f"{shown} - {self.description}" if self.description else shown

    @property
    def meaning(self) -> str:
        """The option in plain words."""
        return self.description or str(self.value)


@dataclass(frozen=True, slots=True)
class Question:
    """One question; of a predicate the options are false and true, of a score the levels from low to high.

    `name` is the client's, `where` its place in the request.  `images` are content parts of its instructions.
    """

    kind: Kind
    name: str | None
    where: str
    instructions: str
    options: tuple[AnswerOption, ...]
    images: tuple[dict[str, Any], ...] = ()

    @property
    def claims(self) -> list[str]:
        """A statement for each option that can be true: one of a predicate, as many as options of others."""
        if self.kind == "predicate":
            return [self.instructions]
        return [f"{self.instructions} {option.meaning}".strip() for option in self.options]
