"""The data type of a dialect: error format, body rules and defaults.  Does not depend on HTTP libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pipelines.base.errors import BraidError, RequestError
from pipelines.values.tasks import GenerationInput
from server.dialects.rules import Rule, check, check_whole
from server.schema.reply_models import Reply

Body = dict[str, Any]


def read_object(raw: bytes) -> Body:
    """The body as a JSON object.  Raises RequestError."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise RequestError("the body is not a JSON object")
    return body


@dataclass(frozen=True, slots=True)
class BodyRules:
    """The rules for the bodies of one endpoint: `single` fields are checked first, then `together`.

    `transform` converts a body that passed to the body of Braid's own endpoint; `translate_error` rewords an
    error of the model in the terms of the dialect.
    """

    single: tuple[Rule, ...]
    together: tuple[Rule, ...] = ()
    transform: Callable[[Body], Body] = lambda body: body
    translate_error: Callable[[RequestError], RequestError] = lambda error: error


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the paths of one API differ from Braid's own.

    `error` builds the body of an error; `error_words` allows OpenAI's words as its code; `statuses` maps
    Braid's HTTP statuses to different ones.  `id_header` has the id of a request beside `X-Request-Id`, where
    its clients look for it; `key_parameter` is the parameter of the query in which they may send an API key.
    `bodies` maps the kind of an endpoint to its rules; other bodies
    are used unchanged.  `read` makes an object of a body that has rules.  `transform_generation` changes the
    input of the pipeline, such as its defaults.
    """

    name: str
    error: Callable[[BraidError], Reply]
    error_words: bool = False
    statuses: Mapping[int, int] = field(default_factory=dict)
    id_header: str | None = None
    key_parameter: str | None = None
    bodies: Mapping[str, BodyRules] = field(default_factory=dict)
    read: Callable[[bytes], Body] = read_object
    transform_generation: Callable[[GenerationInput], GenerationInput] = lambda generation: generation

    def transform_body(self, kind: str, raw: bytes) -> bytes:
        """Check a body and convert it to that of Braid's own endpoint.  Raises RequestError."""
        rules = self.bodies.get(kind)
        if rules is None:
            return raw
        body = self.read(raw)
        check(body, rules.single)
        check_whole(body, rules.together)
        return msgspec.json.encode(rules.transform(body))

    def translate_error(self, kind: str, error: RequestError) -> RequestError:
        """An error of the model in the terms of the dialect."""
        rules = self.bodies.get(kind)
        return error if rules is None else rules.translate_error(error)
