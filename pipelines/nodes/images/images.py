"""The images node: the images of a conversation → what the model's encoder reads of them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.errors import RequestError
from pipelines.nodes.images.data_urls import read_data_url
from pipelines.nodes.images.decoding import ImageLimits, decode_image, import_pillow
from pipelines.nodes.images.families import ImageFamily, at_most, read_family
from pipelines.nodes.images.read_image import ReadImage
from pipelines.nodes.interface import Loading, Planning, Running
from pipelines.nodes.request_plan import RequestPlan
from pipelines.tasks import GenerationInput, ImageInput
from pipelines.values import Floats, Grid, Images

SHOWN = "images"
"""The field of a request that this node handles."""


class ReadImages(Node, Planning):
    """Decodes the images of the messages and scales them to the size that the model sees."""

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

    def plan(self, request: GenerationInput) -> RequestPlan:
        return RequestPlan(handled=frozenset({SHOWN}))

    def run(self, call: Running, request: GenerationInput) -> Images:
        return self.read(request.images)

    def read(self, given: Sequence[ImageInput]) -> Images:
        """Raises RequestError, which names the field at fault."""
        most = self.config.max_images
        if len(given) > most:
            raise RequestError(f"At most {most} image(s) may be provided in one request.", given[most].where)
        read = [self.image(each) for each in given]
        parts = [(part, image) for image in read for part in image.parts]
        grids = [image.grid for image in read if image.grid]
        joined = np.concatenate if grids else np.stack
        return Images(
            joined([part for part, _ in parts]) if parts else np.empty(0, np.float32),
            [image.num_tokens for _, image in parts],
            [digest_of(part, image.grid) for part, image in parts],
            self.family.token_id,
            self.family.marks,
            [image.text for image in read],
            grids,
        )

    def image(self, given: ImageInput) -> ReadImage:
        """What is read of an image.  Raises RequestError."""
        data = given.data
        if data is None:
            data = read_data_url(given.url, self.limits.max_bytes, given.where)
        return self.family.read(decode_image(data, self.limits, given.where))


def digest_of(part: Floats, grid: Grid | None) -> bytes:
    """The name of what an encoder reads: images of other shapes may have equal bytes."""
    return blake2b(part.tobytes() + repr(grid).encode(), digest_size=16).digest()


def _family(config: Path, settings: Path) -> ImageFamily:
    return read_family(config, settings)
