"""The way of a call's requests to one of several engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.wire.messages import ImageRows
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.tensor_codec import Arrays
from pipelines.wire.update_queue import PendingReply, UpdateQueue
from pipelines.worker.engines.links import EngineLinks, EnginePlace


class Route:
    """Sends requests as an `EngineClient` does: to the engine of the first one, while that has their models.

    Belongs to the event loop.
    """

    def __init__(self, links: EngineLinks, key: str | None) -> None:
        """`key`: what the requests of one session have alike; None: there is no such."""
        self._links = links
        self._key = key
        self._engine: int | None = None

    def submit(
        self,
        model: str,
        instance_id: int,
        node: str,
        prompts: list[list[int]],
        params: SamplingParams,
        *,
        update_queue: UpdateQueue,
        context: int | None = None,
        images: ImageRows | None = None,
        adapter: int = 0,
        **more: Any,
    ) -> int:
        """Does `EngineClient.submit` with the worker's own numbers of the instance and the adapter."""
        place = self._place(model, instance_id, _requests(images, context), adapter)
        return place.link.submit(
            *(model, place.instance_id, node, prompts, params),
            update_queue=update_queue,
            context=context,
            images=images,
            adapter=place.adapter,
            **more,
        )

    def infer(
        self,
        model: str,
        instance_id: int,
        node: str,
        inputs: Arrays,
        outputs: list[str] | None,
        *,
        slot: PendingReply,
        held: Mapping[str, int] | None = None,
        images: ImageRows | None = None,
        **more: Any,
    ) -> int:
        """Does `EngineClient.infer` with the worker's own number of the instance."""
        place = self._place(model, instance_id, _requests(images, *(held or {}).values()))
        return place.link.infer(
            *(model, place.instance_id, node, inputs, outputs), slot=slot, held=held, images=images, **more
        )

    def abort(self, request_id: int, choice: int = -1) -> None:
        self._links.of_request(request_id).abort(request_id, choice)

    def release(self, request_id: int) -> None:
        self._links.of_request(request_id).release(request_id)

    def _place(self, model: str, instance_id: int, refers: list[int], adapter: int = 0) -> EnginePlace:
        place = self._links.place(model, instance_id, adapter, self._key, self._engine, refers)
        self._engine = place.engine
        return place


def _requests(images: ImageRows | None, *held: int | None) -> list[int]:
    """The requests whose outputs one refers to."""
    rows = [] if images is None else [images.request_id]
    return [*rows, *(each for each in held if each is not None)]
