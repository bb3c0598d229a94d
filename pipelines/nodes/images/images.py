"""The images node: the images of a conversation → what the model's encoder reads of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.base.errors import BadImage, RequestError
from pipelines.nodes.images.data_urls import read_data_url
from pipelines.nodes.images.decoding import ImageLimits, decode_image, import_pillow
from pipelines.nodes.images.families import ImageFamily, at_most, is_in_order, read_family
from pipelines.nodes.images.known_image import known_image
from pipelines.nodes.images.read_image import ReadImage
from pipelines.nodes.images.shown_image import ShownImage, joined, shown_image
from pipelines.nodes.interface import Loading, MarksMedia, Planning, Running
from pipelines.nodes.request_plan import RequestPlan
from pipelines.values.node_values import Images
from pipelines.values.tasks import ImageInput, PromptInput

SHOWN = "images"
"""The field of a request that this node handles."""


class ReadImages(Node, Planning, MarksMedia):
    """Decodes the images of the messages and scales them to the size that the model reads."""

    class Config(NodeConfig):
        model: FilePath = Field(description="config.json of the model")
        settings: FilePath = Field(description="preprocessor_config.json of the model")
        max_images: int = Field(default=8, ge=1, description="images of one request; more are a 400")
        max_mb: float = Field(default=20, gt=0, description="MB of an image file; a larger one is a 400")
        max_megapixels: float = Field(
            default=40, gt=0, description="million pixels of an image, checked before it is decoded"
        )
        max_image_tokens: int | None = Field(
            default=None,
            ge=4,
            description="larger images are scaled down to it, where their sizes differ; default: as the "
            "model's own settings say",
        )

    def load(self, resources: Loading) -> None:
        """Raises ValueError without Pillow, and for a model whose images are read in another way."""
        import_pillow()
        config = self.config
        paths = self.folder / config.model, self.folder / config.settings
        family: ImageFamily = resources.shared(_family, *paths)
        most = config.max_image_tokens
        self.family = family if most is None else at_most(family, most)
        self.limits = ImageLimits(int(config.max_mb * 1e6), int(config.max_megapixels * 1e6))

    def plan(self, request: PromptInput) -> RequestPlan:
        return RequestPlan(handled=frozenset({SHOWN}))

    def media_marks(self) -> Sequence[str]:
        return self.family.marks

    def run(self, call: Running, request: PromptInput) -> Images:
        return self.read(request.images)

    def read(self, inputs: Sequence[ImageInput]) -> Images:
        """Raises RequestError, which names the field at fault."""
        most = self.config.max_images
        if len(inputs) > most:
            raise BadImage(f"At most {most} image(s) may be provided in one request.", inputs[most].where)
        shown: dict[tuple[str | None, str | None], ShownImage] = {}  # by URL and uuid, and by uuid alone
        images = []
        for i, image in enumerate(inputs):
            key = image.url, image.uuid
            images.append(shown.get(key) or self._shown(image, i))
            shown[key] = images[-1]
            if image.uuid is not None:
                shown[None, image.uuid] = images[-1]
        all_images = joined(images, self.family.token_id, self.family.marks)
        return replace(all_images, in_order=is_in_order(self.family))

    def _shown(self, given: ImageInput, index: int) -> ShownImage:
        """An image of a request.  Raises RequestError."""
        if given.url is None:
            if not given.data:
                raise _cache_miss(index, given.where)
            return ShownImage(known_image(given.data), [], given.uuid)
        return shown_image(self._image(given, given.url), given.uuid)

    def _image(self, given: ImageInput, url: str) -> ReadImage:
        """What is read of an image.  Raises RequestError."""
        data = given.data
        if data is None:
            data = read_data_url(url, self.limits.max_bytes, given.where)
        return self.family.read(decode_image(data, self.limits, given.where))


def _cache_miss(index: int, where: str) -> RequestError:
    """The error for an image without data, with vLLM's text."""
    return RequestError(
        f"`{where}`: Cache miss for image at index {index} but data is not provided. No image with this "
        "`uuid` is stored: send the image itself, with the same `uuid`.",
        where,
    )


def _family(config: Path, settings: Path) -> ImageFamily:
    return read_family(config, settings)
