"""The images and sounds of a request that are not in it: found before it is prepared, and put into its input.

One with a URL is fetched; of an image with a uuid alone the engine host is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from pipelines.nodes.images.image_tensors import wanted
from pipelines.values.tasks import ImageInput, MediaInput, PromptInput, SoundInput
from pipelines.wire.requests import Origin, SubmitTensors
from pipelines.worker.engines.faces import RequestClient
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import of_type
from pipelines.worker.submissions import TensorSubmission
from server.http.exchange import Exchange
from server.media.links import named_elsewhere
from server.services.services import Services

if TYPE_CHECKING:
    from pipelines.nodes.audio.sounds import ReadAudio
    from pipelines.nodes.images.images import ReadImages
    from pipelines.nodes.pooling.batcher import Batcher

Input = TypeVar("Input", bound=PromptInput)
Files = Mapping[tuple[str | None, str | None], bytes]
"""The source of an image → the bytes that were there, or what is known of it."""


class Showing(Protocol):
    """A request that may show images or have sounds; both raise RequestError for a part that is not valid."""

    @property
    def shows_images(self) -> bool: ...

    @property
    def images(self) -> list[ImageInput]: ...

    @property
    def sounds(self) -> list[SoundInput]: ...


async def fetch_images(
    services: Services,
    client: RequestClient,
    pipeline: Pipeline,
    exchange: Exchange,
    request: Showing,
    num_bytes: int,
) -> Files:
    """What a request's images and sounds lead to, where these are not in it; its body has `num_bytes`.

    Nothing is fetched for a request that will be refused: for a model that takes none, or with more than it
    takes.  Raises RequestError, FetchFailed, Overloaded, and ClientGone.
    """
    if not request.shows_images:
        return {}
    images, sounds = await exchange.off_loop(lambda: (request.images, request.sounds), num_bytes)
    files: dict[tuple[str | None, str | None], bytes] = {}
    vision: ReadImages | None = next(of_type(pipeline, "images"), None)
    if images and vision and len(images) <= vision.config.max_images:
        if known := [image for image in images if image.url is None]:
            salt = getattr(request, "cache_salt", None) or ""
            asked = known_images(client, pipeline, exchange.tenant, known, salt)
            files |= await exchange.while_here(asked)
        files |= await _linked(services, exchange, images, vision.limits.max_bytes)
    audio: ReadAudio | None = next(of_type(pipeline, "audio"), None)
    if sounds and audio and len(sounds) <= audio.config.max_sounds:
        files |= await _linked(services, exchange, sounds, audio.max_bytes)
    return files


async def _linked(
    services: Services, exchange: Exchange, media: Sequence[MediaInput], max_bytes: int
) -> Files:
    """Fetches the files with URLs that lead out of the request."""
    if not (linked := named_elsewhere(media)):
        return {}
    fetched = await exchange.while_here(services.media.fetch(linked, max_bytes))
    return {(url, None): data for url, data in fetched.items()}


async def known_images(
    client: RequestClient, pipeline: Pipeline, tenant: str, images: Sequence[ImageInput], salt: str
) -> Files:
    """What the encoder's engine knows of images that have a uuid alone."""
    uuids = list(dict.fromkeys(image.uuid or "" for image in images))
    contents: dict[str, bytes] = {}
    batchers: Iterator[Batcher] = of_type(pipeline, "batcher")
    for batcher in batchers:
        message = SubmitTensors(batcher.address, origin=Origin(tenant=tenant))
        asked = TensorSubmission(message, wanted(uuids, salt))
        try:
            asked.send(client)
            answer = await asked.reply.get()
        finally:
            asked.end(client)
        if answer is not None:
            contents |= {
                uuid: known for uuid, known in zip(uuids, answer["known"].tolist(), strict=True) if known
            }
    return {(None, uuid): known for uuid, known in contents.items()}


def with_files(given: Input, files: Files) -> Input:
    """The input with the bytes of its images and sounds that were fetched, and what is known of others."""
    if not files:
        return given
    images = [replace(each, data=files.get(each.source)) for each in given.images]
    sounds = [replace(each, data=files.get(each.source)) for each in given.sounds]
    return replace(given, images=images, sounds=sounds)


def size_of(files: Files) -> int:
    """How many bytes were fetched."""
    return sum(map(len, files.values()))
