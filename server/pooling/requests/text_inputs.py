"""The texts of a body: each a string, an object that holds one, or content parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, StrictStr

from pipelines.errors import RequestError
from server.generation.requests.conversation import ContentPart
from server.generation.requests.field_types import AlsoAccepts, Items, field_error
from server.generation.requests.known_fields import check_fields
from server.http.error_text import quoted
from server.pooling.requests.input_parsing import check_number


def _as_parts(value: Any) -> Any:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if value is not None and not isinstance(value, list):
        raise field_error(f"must be a string or a list of content parts, got {quoted(value)}")
    return value


def as_object(value: Any) -> Any:
    """A string as the equivalent object."""
    if isinstance(value, str):
        return {"text": value}
    if not isinstance(value, dict | BaseModel):
        raise field_error(f"must be a string, or an object with `text` or `content`, got {quoted(value)}")
    return value


def as_list(value: Any) -> Any:
    """A single text as a list."""
    if isinstance(value, str | dict):
        return [value]
    if value is not None and not isinstance(value, list):
        raise field_error(f"must be a string or a list of strings, got {quoted(value)}")
    return value


class TextInput(BaseModel):
    """An object that holds a text: as `text`, or as `content` (a string or a list of parts)."""

    model_config = ConfigDict(extra="allow")
    text: StrictStr | None = None
    content: Annotated[Items[ContentPart] | None, BeforeValidator(_as_parts), AlsoAccepts(type="string")] = (
        None
    )

    def read_text(self, where: str) -> str:
        """The text, its parts joined by newlines.  Raises RequestError naming `where`."""
        return "\n".join(self.text_parts(where))

    def text_parts(self, where: str) -> list[str]:
        """The parts of the text.  Raises RequestError for unknown fields too."""
        check_fields(self.model_extra or {}, type(self).model_fields, where=f"{where}.")
        return self.parts(where)

    def parts(self, where: str) -> list[str]:
        """The parts of the text; other fields are not checked.  Raises RequestError."""
        if (self.text is None) == (self.content is None):
            raise RequestError(f"`{where}` must hold either `text` or `content`", field=where)
        if self.text is not None:
            return [self.text]
        return [part.plain(f"{where}.content.{i}")["text"] for i, part in enumerate(self.content or [])]


Text = Annotated[TextInput, BeforeValidator(as_object), AlsoAccepts(type="string")]
Texts = Annotated[Items[Text], BeforeValidator(as_list), AlsoAccepts(type="string")]
"""One text or several."""


def read_texts(texts: Sequence[TextInput], where: str) -> list[str]:
    """The texts of a field.  Raises RequestError naming the one at fault."""
    check_number(len(texts), where)
    return [text.read_text(f"{where}.{i}") for i, text in enumerate(texts)]
