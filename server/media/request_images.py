"""The images of a request that are not in it: found before it is prepared, and put into its input.

One with a URL is fetched; of one with a uuid alone the engine host is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from pipelines.nodes.images.image_tensors import wanted
from pipelines.nodes.images.images import ReadImages
from pipelines.nodes.pooling.batcher import Batcher
from pipelines.tasks import ImageInput, PromptInput
from pipelines.wire.client import EngineClient
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.submissions import TensorSubmission
from server.generation.requests.required_nodes import nodes
from server.http.exchange import Exchange
from server.media.fetching import named_elsewhere
from server.services import Services

Input = TypeVar("Input", bound=PromptInput)
Files = Mapping[tuple[str | None, str | None], bytes]
"""The source of an image → the bytes that were there, or what is known of it."""


class Showing(Protocol):
    """A request that may show images; `images` raises RequestError for a part that is not valid."""

    @property
    def shows_images(self) -> bool: ...

    @property
    def images(self) -> list[ImageInput]: ...


async def fetch_images(
    services: Services, pipeline: Pipeline, exchange: Exchange, request: Showing, num_bytes: int
) -> Files:
    """What a request's images lead to, where these are not in it; its body has `num_bytes`.

    Nothing is fetched for a request that will be refused: for a model that does not see, or with more images
    than it takes.  Raises RequestError, FetchFailed, Overloaded, and ClientGone.
    """
    if not request.shows_images:
        return {}
    images = await exchange.off_loop(lambda: request.images, num_bytes)
    linked, known = named_elsewhere(images), [each for each in images if each.url is None]
    if not linked and not known:
        return {}
    reader = next((node for node in nodes(pipeline) if isinstance(node, ReadImages)), None)
    if reader is None or len(images) > reader.config.max_images:
        return {}
    files: Files = {}
    if known:
        salt = getattr(request, "cache_salt", None) or ""
        asked = known_images(services.client, pipeline, exchange.tenant, known, salt)
        files = await exchange.while_here(asked)
    if linked:
        fetched = await exchange.while_here(services.media.fetch(linked, reader.limits.max_bytes))
        files = {**files, **{(url, None): data for url, data in fetched.items()}}
    return files


async def known_images(
    client: EngineClient, pipeline: Pipeline, tenant: str, images: Sequence[ImageInput], salt: str
) -> Files:
    """What the encoder's engine knows of images that have a uuid alone."""
    uuids = list(dict.fromkeys(each.uuid or "" for each in images))
    found: dict[str, bytes] = {}
    for batcher in (node for node in nodes(pipeline) if isinstance(node, Batcher)):
        asked = TensorSubmission(batcher.address, wanted(uuids, salt), None, tenant=tenant)
        try:
            asked.send(client)
            answer = await asked.reply.get()
        finally:
            asked.end(client)
        if answer is not None:
            found |= {
                uuid: known for uuid, known in zip(uuids, answer["known"].tolist(), strict=True) if known
            }
    return {(None, uuid): known for uuid, known in found.items()}


def with_files(given: Input, files: Files) -> Input:
    """The input with the bytes of its images that were fetched, and what is known of others."""
    if not files:
        return given
    return replace(given, images=[replace(each, data=files.get(each.source)) for each in given.images])


def size_of(files: Files) -> int:
    """How many bytes were fetched."""
    return sum(map(len, files.values()))
