"""The sparse_tokens node: sparse vectors of token ids alone, for which no model runs."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from safetensors import SafetensorError

from graphs.node import FilePath, Node, NodeConfig, Place
from pipelines.base.float_tensors import read_float_tensors
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import RowShape, SparseEncoded, TokenBatch
from pipelines.nodes.interface import Loading
from pipelines.nodes.pooling.body.sparse import sparse_row


class SparseTokens(Node):
    """Gives each token of a text the weight of its id, whatever the others are: how models without an
    inference for queries read them (OpenSearch's doc models, sentence-transformers' SparseStaticEmbedding).
    """

    place: ClassVar[Place] = "step"
    gives: RowShape

    class Config(NodeConfig):
        weights: FilePath = Field(description="a safetensors file with one `weight` for each id")
        skip_ids: list[int] = Field(default=[], description="ids that have no weight, such as special tokens")

    def load(self, resources: Loading) -> None:
        """Raises `ModelError`."""
        self._weights = read_id_weights(self.folder / self.config.weights)
        self.gives = RowShape(per_token=False, size=len(self._weights), is_sparse=True)

    def run(self, batch: TokenBatch) -> SparseEncoded:
        weights, skip_ids = self._weights, self.config.skip_ids
        texts = zip(batch.ids, batch.lengths.tolist(), strict=True)
        all_ids = [np.unique(ids[:length]) for ids, length in texts]
        known = [ids[ids < len(weights)] for ids in all_ids]
        return SparseEncoded([sparse_row(ids, weights[ids], skip_ids) for ids in known])


def read_id_weights(path: Path) -> NDArray[np.float32]:
    """float32[vocabulary].  Raises `ModelError`."""
    try:
        weights = read_float_tensors(path)["weight"]
    except (OSError, SafetensorError, KeyError) as error:
        raise ModelError(f"{path} holds no weights of ids: {error}") from error
    if weights.ndim != 1:
        raise ModelError(f"{path} holds weights of shape {list(weights.shape)}, not one for each id.")
    return weights
