"""A text of a body: a string, an object that holds one, or content parts.

Knows nothing of endpoints or of what becomes of a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, StrictStr

from pipelines.errors import RequestError
from server.generation.requests.conversation import Part
from server.generation.requests.field_types import Also, fault
from server.generation.requests.known_fields import check_fields, shown
from server.pooling.requests.shapes import check_number


def _as_parts(value: Any) -> Any:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if value is not None and not isinstance(value, list):
        raise fault(f"must be a string or a list of content parts, got {shown(value)}")
    return value


def as_object(value: Any) -> Any:
    """A string as the object that it stands for."""
    if isinstance(value, str):
        return {"text": value}
    if not isinstance(value, dict | BaseModel):
        raise fault(f"must be a string, or an object with `text` or `content`, got {shown(value)}")
    return value


def as_list(value: Any) -> Any:
    """One text as a list of one."""
    if isinstance(value, str | dict):
        return [value]
    if value is not None and not isinstance(value, list):
        raise fault(f"must be a string or a list of strings, got {shown(value)}")
    return value


class Content(BaseModel):
    """An object that holds a text: as `text`, or as `content`, a string or a list of parts."""

    model_config = ConfigDict(extra="allow")
    text: StrictStr | None = None
    content: Annotated[list[Part] | None, BeforeValidator(_as_parts), Also(type="string")] = None

    def said(self, where: str) -> str:
        """The text, that of parts joined by newlines.  Raises RequestError naming `where`."""
        return "\n".join(self.said_parts(where))

    def said_parts(self, where: str) -> list[str]:
        """The same in its parts."""
        check_fields(self.model_extra or {}, type(self).model_fields, where=f"{where}.")
        return self.parts(where)

    def parts(self, where: str) -> list[str]:
        """The same, whatever else the object holds."""
        if (self.text is None) == (self.content is None):
            raise RequestError(f"`{where}` must hold either `text` or `content`", field=where)
        if self.text is not None:
            return [self.text]
        return [part.content(f"{where}.content.{i}") for i, part in enumerate(self.content or [])]


Text = Annotated[Content, BeforeValidator(as_object), Also(type="string")]
Texts = Annotated[list[Text], BeforeValidator(as_list), Also(type="string")]
"""One text or several."""


def said(texts: Sequence[Content], where: str) -> list[str]:
    """The texts of a field.  Raises RequestError naming the one at fault."""
    check_number(len(texts), where)
    return [text.said(f"{where}.{i}") for i, text in enumerate(texts)]
