"""The merge node: the vectors of texts and those of images, in the order of the request."""

from __future__ import annotations

import numpy as np

from graphs.node import Node
from pipelines.base.errors import EngineError
from pipelines.nodes.interface import Running
from pipelines.nodes.pooling.texts import shows_image
from pipelines.values.node_values import PooledOutputs
from pipelines.values.stream_values import Deferred


class Merge(Node):
    """Gives one vector for each input of the request, of a model with an encoder of texts and another of
    images.
    """

    def run(
        self, call: Running, texts: Deferred[PooledOutputs], images: Deferred[PooledOutputs]
    ) -> Deferred[PooledOutputs]:
        are_images = [shows_image(each) for each in call.request.conversations]
        if not any(are_images):
            return texts
        if all(are_images):
            return images
        return texts.map(lambda read: images.map(lambda seen: merged(are_images, read, seen)))


def merged(are_images: list[bool], texts: PooledOutputs, images: PooledOutputs) -> PooledOutputs:
    """float32[inputs, size] of both.  Raises EngineError for vectors that cannot be compared."""
    read, seen = np.asarray(texts.values), np.asarray(images.values)
    if read.ndim != 2 or read.shape[1:] != seen.shape[1:]:
        raise EngineError(f"texts have vectors of {read.shape[1:]} numbers, and images of {seen.shape[1:]}")
    of_image = np.array(are_images)
    values = np.empty((len(of_image), read.shape[1]), np.float32)
    values[of_image], values[~of_image] = seen, read
    return PooledOutputs(values)
