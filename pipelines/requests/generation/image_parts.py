"""Parts of a message that show an image: chat's `image_url` and Responses' `input_image`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import AlsoAccepts, field_error
from pipelines.requests.fields.known_fields import (
    IGNORED_IN_IMAGE_PARTS,
    IGNORED_IN_IMAGES,
    IGNORED_IN_PARTS,
    REFUSED_IN_IMAGE_PARTS,
    check_fields,
)
from pipelines.values.tasks import ImageInput, SoundInput

IMAGE_PARTS = ("image_url", "input_image")
"""Types of parts that show an image; both have it in the field `image_url`."""
MEDIA_SETTINGS = ("media_io_kwargs", "mm_processor_kwargs")
"""Fields of a request without effect, except beside images."""
PART_FIELDS = ("type", "text", "refusal", "image_url", "audio_url", "input_audio", "uuid")


def _image_url(value: Any) -> Any:
    if isinstance(value, str):
        return {"url": value}
    if value is not None and not isinstance(value, dict):
        raise field_error(f"must be an object with a `url`, got {quoted(value)}")
    return value


class ImageUrl(DeferredModel):
    """The URL of an image; null where the `uuid` of its part stands for it."""

    model_config = ConfigDict(extra="allow")
    url: StrictStr | None = None


GivenImage = Annotated[ImageUrl | None, BeforeValidator(_image_url), AlsoAccepts(type="string")]
"""An object with a `url`, or the URL itself."""


class WithoutMedia:
    """A request without images and sounds; one that has them gives its own."""

    @property
    def shows_images(self) -> bool:
        return False

    @property
    def images(self) -> list[ImageInput]:
        """The images that the request shows.  Raises RequestError for a part that is not valid."""
        return []

    @property
    def sounds(self) -> list[SoundInput]:
        """The sounds of the request.  Raises RequestError for a part that is not valid."""
        return []


def image_of(
    kind: str, image: ImageUrl | None, uuid: str | None, others: Mapping[str, Any], where: str
) -> ImageInput:
    """The image of a part of type `kind`; `others` are the part's undeclared fields.

    Raises RequestError naming `where`.
    """
    at = f"{where}.image_url"
    ignored = IGNORED_IN_PARTS | IGNORED_IN_IMAGE_PARTS
    check_fields(others, PART_FIELDS, REFUSED_IN_IMAGE_PARTS, ignored, f"{where}.")
    if image is not None:
        check_fields(
            image.model_extra or {}, ImageUrl.model_fields, ignored=IGNORED_IN_IMAGES, where=f"{at}."
        )
    return ImageInput(None if image is None else image.url, kind, where, uuid=uuid or None)


def named(images: Sequence[ImageInput], hashes: Sequence[str | None]) -> list[ImageInput]:
    """The images of a request, to which FastDeploy's `mm_hashes` may give names: one for each, or none.

    Raises RequestError for an image that has neither a URL nor a name.
    """
    if hashes and len(hashes) != len(images):
        raise RequestError(
            f"`mm_hashes` has {len(hashes)} names, and the request has {len(images)} images", "mm_hashes"
        )
    pairs = zip(images, hashes or [None] * len(images), strict=True)
    named_images = [replace(image, uuid=name or image.uuid) for image, name in pairs]
    for image in named_images:
        if image.url is None and image.uuid is None:
            at = f"{image.where}.image_url"
            raise RequestError(
                f"`{at}` is required in a part of type `{image.kind}`, or the `uuid` of an image that was "
                "sent before",
                at,
            )
    return named_images


def check_media_settings(others: Mapping[str, Any]) -> None:
    """Raise RequestError for what a request with images may not have; `others` are its undeclared fields."""
    for name in MEDIA_SETTINGS:
        if others.get(name):
            raise RequestError(
                f"`{name}`: images are read as the model's own settings say; leave it out", field=name
            )
