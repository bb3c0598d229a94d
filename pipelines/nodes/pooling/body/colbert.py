"""The colbert node: a vector for each token of a text, to be compared by MaxSim."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig, Place
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import Encoded, RowShape
from pipelines.nodes.interface import Loading
from pipelines.nodes.pooling.body.linear_file import read_linear
from pipelines.nodes.pooling.body.pooled_shape import given_above


class Colbert(Node):
    """Makes the vectors of tokens that late interaction compares: a linear layer, then length 1 (ColBERT,
    Khattab and Zaharia, 2020).
    """

    place: ClassVar[Place] = "step"
    gives: RowShape

    class Config(NodeConfig):
        weights: FilePath | None = Field(
            default=None,
            description="colbert_linear.pt or a safetensors file with `weight` and `bias`; default: no layer",
        )
        skip_first: bool = Field(default=False, description="leave out the first token, as BGE-M3 does")
        skip_ids: list[int] = Field(default=[], description="leave out these ids, such as punctuation")

    def load(self, resources: Loading) -> None:
        """Raises `ModelError` for weights of another size, or where the line above gives no tokens."""
        above, weights = given_above(resources), self.config.weights
        self._layer: tuple[Any, Any] | None = None
        if not above.per_token:
            raise ModelError(f"it needs vectors of tokens, but the line above gives {above}.")
        self._host = None if weights is None else read_linear(self.folder / weights)
        if self._host is not None and self._host[0].shape[1] != above.size:
            raise ModelError(f"weights: {weights} has no rows for {above}.")
        size = above.size if self._host is None else len(self._host[0])
        self.gives = RowShape(per_token=True, size=size)

    def run(self, values: Encoded) -> Encoded:
        vectors, ops, batch = values.values, values.ops, values.batch
        if self._host is not None:
            weight, bias = self._host
            self._layer = self._layer or (ops.load(weight), None if bias is None else ops.load(bias))
            vectors = ops.dense(vectors, *self._layer, "identity")
        chosen = batch.mask.astype(np.bool_) & ~np.isin(batch.ids, self.config.skip_ids)
        if self.config.skip_first:
            chosen[:, 0] = False
        return Encoded(ops.normalize(vectors, batch.activate), batch, ops, chosen)

    def close(self) -> None:
        self._layer = None
