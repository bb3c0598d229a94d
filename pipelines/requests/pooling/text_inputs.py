"""The texts of a body: each a string, an object that holds one, or content parts, which may show images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import AlsoAccepts, Items, field_error
from pipelines.requests.fields.known_fields import check_fields
from pipelines.requests.generation.conversation import ContentPart
from pipelines.requests.generation.image_parts import IMAGE_PARTS
from pipelines.requests.pooling.input_parsing import check_number
from pipelines.values.tasks import ImageInput

Content = str | list[dict[str, str]]
"""A text, or the parts of what shows an image, as chat templates take them."""


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


class TextInput(DeferredModel):
    """An object that holds a text: as `text`, or as `content` (a string or a list of parts)."""

    model_config = ConfigDict(extra="allow")
    text: StrictStr | None = None
    content: Annotated[Items[ContentPart] | None, BeforeValidator(_as_parts), AlsoAccepts(type="string")] = (
        None
    )

    @property
    def shows_images(self) -> bool:
        return any(part.type in IMAGE_PARTS for part in self.content or [])

    def read(self, where: str, images: list[ImageInput]) -> Content:
        """The text, or the parts where some show images, which are put into `images`.

        Raises RequestError naming `where`, for unknown fields too.
        """
        return self._joined(self.checked_parts(where, images))

    def read_known(self, where: str, images: list[ImageInput]) -> Content:
        """Reads the content; fields that are not known are not checked."""
        return self._joined(self._parts(where, images))

    def checked_parts(self, where: str, images: list[ImageInput]) -> list[dict[str, str]]:
        """The parts, a text as one of them.  Raises RequestError as `read`."""
        check_fields(self.model_extra or {}, type(self).model_fields, where=f"{where}.")
        return self._parts(where, images)

    def _joined(self, parts: list[dict[str, str]]) -> Content:
        return parts if self.shows_images else "\n".join(part["text"] for part in parts)

    def _parts(self, where: str, images: list[ImageInput]) -> list[dict[str, str]]:
        if (self.text is None) == (self.content is None):
            raise RequestError(f"`{where}` must hold either `text` or `content`", field=where)
        if self.text is not None:
            return [{"type": "text", "text": self.text}]
        return [part.plain(f"{where}.content.{i}", images) for i, part in enumerate(self.content or [])]


Text = Annotated[TextInput, BeforeValidator(as_object), AlsoAccepts(type="string")]
Texts = Annotated[Items[Text], BeforeValidator(as_list), AlsoAccepts(type="string")]
"""One text or several."""


def read_contents(texts: Sequence[TextInput], where: str, images: list[ImageInput]) -> list[Content]:
    """The contents of a field; images are put into `images`.  Raises RequestError naming the one at fault."""
    check_number(len(texts), where)
    return [text.read(f"{where}.{i}", images) for i, text in enumerate(texts)]


def texts_of(contents: Sequence[Content]) -> list[str]:
    """The contents that are texts."""
    return [each for each in contents if isinstance(each, str)]
