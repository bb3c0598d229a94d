"""The nodes that end a batcher's body: vectors of length 1, probabilities.

A request may want none of it (`TokenBatch.activate`).  Knows no formula: those are `PoolingOps`'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from graphs.node import Node, Place
from pipelines.engine.batch import Encoded
from pipelines.nodes.rows import RowShape, given_above

if TYPE_CHECKING:
    from pipelines.build import Resources


class Activation(Node):
    """Rows of the shape of those above.  Raises `ModelError` at load where none are."""

    place: ClassVar[Place] = "step"
    gives: RowShape

    def load(self, resources: Resources) -> None:
        self.gives = given_above(resources)


class Normalize(Activation):
    """Each row divided by its length: cosines are products then."""

    def run(self, values: Encoded) -> Encoded:
        unit = values.ops.normalize(values.values, values.batch.activate)
        return Encoded(unit, values.batch, values.ops)


class Sigmoid(Activation):
    """A probability of each number, on its own."""

    def run(self, values: Encoded) -> Encoded:
        scores = values.ops.sigmoid(values.values, values.batch.activate)
        return Encoded(scores, values.batch, values.ops)


class Softmax(Activation):
    """Probabilities of a row's numbers, which sum to 1."""

    def run(self, values: Encoded) -> Encoded:
        probabilities = values.ops.softmax(values.values, values.batch.activate)
        return Encoded(probabilities, values.batch, values.ops)
