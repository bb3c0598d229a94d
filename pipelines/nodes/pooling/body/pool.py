"""The pool node: one vector for each text, of the vectors of its tokens."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from graphs.node import Node, NodeConfig, Place
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import Encoded, RowShape
from pipelines.nodes.interface import Loading
from pipelines.nodes.pooling.body.pooled_shape import given_above


class Pool(Node):
    """Pools the vectors of each text's tokens into one vector; `how: none` passes them on unchanged.

    `gives` is the shape of the output after `load`.
    """

    place: ClassVar[Place] = "step"
    gives: RowShape

    class Config(NodeConfig):
        how: Literal["cls", "mean", "last", "max", "mean_sqrt_len", "weighted_mean", "none"] = Field(
            description="how a text's vector is made of those of its tokens; none: a vector for each token"
        )

    def load(self, resources: Loading) -> None:
        """Raises `ModelError` where the line above gives no vectors of tokens."""
        above = given_above(resources)
        if not above.per_token:
            raise ModelError(
                f"how: {self.config.how} needs vectors of tokens, but the line above gives {above}: "
                "delete this line."
            )
        self.gives = RowShape(self.config.how == "none", above.size)

    def run(self, values: Encoded) -> Encoded:
        if self.config.how == "none":
            return values
        pooled = values.ops.pool(values.values, values.batch.lengths, self.config.how)
        return Encoded(pooled, values.batch, values.ops)
