"""The images of a request that are elsewhere: fetched before it is prepared, and put into its input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from pipelines.nodes.images.images import ReadImages
from pipelines.tasks import GenerationInput, ImageInput
from pipelines.worker.pipeline import Pipeline
from server.generation.requests.required_nodes import nodes
from server.http.exchange import Exchange
from server.media.fetching import named_elsewhere
from server.services import Services

Files = Mapping[str, bytes]
"""URL → the bytes that were there."""


class Showing(Protocol):
    """A request that may show images; `images` raises RequestError for a part that is not valid."""

    @property
    def shows_images(self) -> bool: ...

    @property
    def images(self) -> list[ImageInput]: ...


async def fetch_images(
    services: Services, pipeline: Pipeline, exchange: Exchange, request: Showing, num_bytes: int
) -> Files:
    """What the URLs of a request's images lead to, where these lead out of it; its body has `num_bytes`.

    Nothing is fetched for a request that will be refused: for a model that does not see, or with more images
    than it takes.  Raises RequestError, FetchFailed, Overloaded, and ClientGone.
    """
    if not request.shows_images:
        return {}
    images = await exchange.off_loop(lambda: request.images, num_bytes)
    linked = named_elsewhere(images)
    if not linked:
        return {}
    reader = next((node for node in nodes(pipeline) if isinstance(node, ReadImages)), None)
    if reader is None or len(images) > reader.config.max_images:
        return {}
    return await exchange.while_here(services.media.fetch(linked, reader.limits.max_bytes))


def with_files(generation: GenerationInput, files: Files) -> GenerationInput:
    """The input with the bytes of its images that were fetched."""
    if not files:
        return generation
    images = [replace(each, data=files.get(each.url)) for each in generation.images]
    return replace(generation, images=images)


def size_of(files: Files) -> int:
    """How many bytes were fetched."""
    return sum(map(len, files.values()))
