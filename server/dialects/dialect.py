"""What a dialect is.  Knows no dialect, nothing of HTTP libraries and nothing of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pipelines.errors import BraidError, RequestError
from pipelines.tasks import GenerationInput
from server.dialects.rules import Rule, check, check_whole
from server.generation.replies.schema import Reply

Body = dict[str, Any]


class NotJson(RequestError):
    """The body is none that can be looked at."""

    status, kind = 412, "PreconditionFailedError"


@dataclass(frozen=True, slots=True)
class BodyRules:
    """What the bodies of one endpoint must be: `single` fields first, then those that must go `together`.

    `means` changes a body that passed into what it stands for; `tell` says in the dialect's words what the
    model found wrong with it.
    """

    single: tuple[Rule, ...]
    together: tuple[Rule, ...] = ()
    means: Callable[[Body], Body] = lambda body: body
    tell: Callable[[RequestError], RequestError] = lambda error: error


@dataclass(frozen=True, slots=True)
class Dialect:
    """`error` writes an error's body, `statuses` are those that differ from Braid's own.

    `bodies` maps the kind of an endpoint to its rules; others are read as they are.  `amend` changes what is
    asked of the engine.
    """

    name: str
    error: Callable[[BraidError], Reply]
    statuses: Mapping[int, int] = field(default_factory=dict)
    bodies: Mapping[str, BodyRules] = field(default_factory=dict)
    amend: Callable[[GenerationInput], GenerationInput] = lambda generation: generation

    def read(self, kind: str, raw: bytes) -> bytes:
        """The body as Braid's own endpoints read it.  Raises RequestError in the dialect's words."""
        rules = self.bodies.get(kind)
        if rules is None:
            return raw
        body = _object(raw)
        check(body, rules.single)
        check_whole(body, rules.together)
        return msgspec.json.encode(rules.means(body))

    def tell(self, kind: str, error: RequestError) -> RequestError:
        """What a model found wrong with a body, in the dialect's words."""
        rules = self.bodies.get(kind)
        return error if rules is None else rules.tell(error)


def _object(raw: bytes) -> Body:
    """A JSON object that names its model."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NotJson("The file is not valid json - Cannot parse JSON body") from None
    if not isinstance(body, dict):
        raise NotJson("The file is not valid json - JSON body must be an object")
    for name, holds, fault in (
        ("model", "model" in body, "model field is missing in JSON body"),
        ("model", isinstance(body.get("model"), str), "model field is not a string"),
        ("stream", isinstance(body.get("stream", False), bool), "stream field is not a boolean"),
    ):
        if not holds:
            raise NotJson(f"The file is not valid json - {fault}", field=name)
    return body
