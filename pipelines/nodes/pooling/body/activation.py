"""The nodes that end a batcher's body: vectors of length 1, probabilities.

A request may switch them off (`TokenBatch.activate`).  The formulas are in `PoolingOps`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from graphs.node import Node, Place
from ops.contract import Bools, PoolingOps
from pipelines.inference.contracts.encoder_batch import Encoded, RowShape
from pipelines.nodes.interface import Loading
from pipelines.nodes.pooling.body.pooled_shape import given_above


class Activation(Node):
    """Changes vectors, not their shape.  Raises `ModelError` at load where the line above gives none."""

    place: ClassVar[Place] = "step"
    gives: RowShape

    def load(self, resources: Loading) -> None:
        self.gives = given_above(resources)

    def run(self, values: Encoded) -> Encoded:
        changed = self.function(values.ops)(values.values, values.batch.activate)
        return Encoded(changed, values.batch, values.ops)

    def function(self, ops: PoolingOps) -> Callable[[Any, Bools], Any]:
        """Applied to the vectors of the requests that did not switch it off."""
        raise NotImplementedError


class Normalize(Activation):
    """Divides each vector by its length, so that cosine similarities are dot products."""

    def function(self, ops: PoolingOps) -> Callable[[Any, Bools], Any]:
        return ops.normalize


class Sigmoid(Activation):
    """Turns each number into a probability, independently of the others."""

    def function(self, ops: PoolingOps) -> Callable[[Any, Bools], Any]:
        return ops.sigmoid


class Softmax(Activation):
    """Turns the numbers of each text into probabilities that sum to 1."""

    def function(self, ops: PoolingOps) -> Callable[[Any, Bools], Any]:
        return ops.softmax
