"""The body of OpenAI's moderations: a text, texts, or the parts of one message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ConfigDict, StrictStr, model_validator

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.known_fields import check_fields

MAX_INPUTS = 1024
OPENAI_MODELS = ("omni-moderation", "text-moderation")
"""How the names of OpenAI's models begin, which clients send: they mean the server's own."""
IGNORED = {"user": "a name for the operator's own statistics; it does not change the answer"}

Content = str | list[dict[str, Any]]


class ModerationRequest(DeferredModel):
    """Each text is judged by itself; parts are judged together."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    ignored: ClassVar[Mapping[str, str]] = IGNORED

    model: StrictStr | None = None
    input: Any

    @model_validator(mode="after")
    def _check_other_fields(self) -> ModerationRequest:
        """Raises RequestError."""
        check_fields(self.model_extra or {}, type(self).model_fields, ignored=self.ignored)
        return self

    @property
    def named_model(self) -> str | None:
        """The model of this server that is named."""
        is_theirs = self.model is not None and self.model.startswith(OPENAI_MODELS)
        return None if is_theirs else self.model

    def contents(self) -> list[Content]:
        """What is judged.  Raises RequestError."""
        parts = [self.input] if isinstance(self.input, str) else self.input
        if not isinstance(parts, list) or not parts or len(parts) > MAX_INPUTS:
            raise RequestError(
                f"`input` must be a text, 1 to {MAX_INPUTS} texts, or the parts of a message, got "
                f"{quoted(self.input)}",
                field="input",
            )
        if all(isinstance(part, str) for part in parts):
            return list(parts)
        if not all(isinstance(part, dict) and part.get("type") in ("text", "image_url") for part in parts):
            raise RequestError("`input` must hold texts, or parts of type text and image_url", field="input")
        is_text = all(part["type"] == "text" for part in parts)
        return ["\n".join(str(part.get("text", "")) for part in parts)] if is_text else [parts]
