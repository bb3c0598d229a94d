"""The nodes that end a batcher's body: vectors of length 1, probabilities.

A request may want none of it (`TokenBatch.activate`).  Knows no formula: those are `PoolingOps`'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from graphs.node import Node, Place
from pipelines.host.engine.encoder_batch import Encoded
from pipelines.nodes.pooling.body.pooled_shape import RowShape, given_above

if TYPE_CHECKING:
    from ops.contract import Bools, PoolingOps
    from pipelines.loading import Resources


class Activation(Node):
    """Rows of the shape of those above.  Raises `ModelError` at load where none are."""

    place: ClassVar[Place] = "step"
    gives: RowShape

    def load(self, resources: Resources) -> None:
        self.gives = given_above(resources)

    def run(self, values: Encoded) -> Encoded:
        changed = self.function(values.ops)(values.values, values.batch.activate)
        return Encoded(changed, values.batch, values.ops)

    def function(self, ops: PoolingOps) -> Callable[[Any, Bools], Any]:
        """What is made of the rows that want it."""
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
