"""The sparse node: how much each word of the vocabulary matters in a text."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig, Place
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import WEIGHT, Encoded, RowShape, SparseEncoded
from pipelines.nodes.body_interface import HasEncoder
from pipelines.nodes.interface import Loading
from pipelines.nodes.pooling.body.linear_file import read_linear
from pipelines.nodes.pooling.body.pooled_shape import given_above


class Sparse(Node):
    """Makes a sparse vector over the vocabulary of each text.

    Of logits over the vocabulary the weight of a word is log(1 + relu(logit)), the largest of all tokens
    (SPLADE, Formal et al., 2021).  With `weights`, a linear layer of one row, each token of the text has the
    weight relu(row · hidden state), and a word the largest of its tokens (BGE-M3, Chen et al., 2024).
    """

    place: ClassVar[Place] = "step"
    gives: RowShape

    class Config(NodeConfig):
        weights: FilePath | None = Field(
            default=None, description="sparse_linear.pt or a safetensors file with `weight` and `bias`"
        )
        how: Literal["max", "sum"] = Field(default="max", description="how the weights of tokens are joined")
        activation: Literal["relu", "log1p_relu"] = Field(
            default="relu", description="log1p_relu: the logarithm is taken twice"
        )
        skip_ids: list[int] = Field(default=[], description="ids that have no weight, such as special tokens")
        top_k: int | None = Field(default=None, ge=1, description="most words of a text: the largest weights")

    def load(self, resources: Loading) -> None:
        """Raises `ModelError` for weights of another size, or where the line above gives no logits."""
        above, config = given_above(resources), self.config
        self._row: tuple[Any, Any] | None = None
        if config.weights is None:
            self.gives = RowShape(
                per_token=False, size=above.size, is_sparse=True, most=config.top_k or above.size
            )
            return
        self._host = read_linear(self.folder / config.weights)
        if self._host[0].shape != (1, above.size) or not above.per_token:
            raise ModelError(f"weights: {config.weights} has no row for {above}.")
        self.gives = RowShape(
            per_token=False, size=vocabulary_above(resources), is_sparse=True, most=config.top_k
        )

    def run(self, values: Encoded) -> SparseEncoded:
        texts = self._of_logits(values) if self.config.weights is None else self._of_tokens(values)
        return SparseEncoded([self._chosen(*text) for text in texts])

    def _of_logits(self, values: Encoded) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """(ids, weights) of each text, of logits of its tokens, or of logits that are joined already."""
        if self.config.how == "max" or not self.gives_tokens(values):
            joined = values.values
            if self.gives_tokens(values):
                joined = values.ops.pool(joined, values.batch.lengths, "max")
            rows = self._activated(values.ops.fetch(joined))
        else:
            logits, lengths = values.ops.fetch(values.values), values.batch.lengths.tolist()
            texts = zip(logits, lengths, strict=True)
            rows = np.stack([self._activated(text[:length]).sum(0) for text, length in texts])
        ids = [np.flatnonzero(row) for row in rows]
        return [(own, row[own]) for own, row in zip(ids, rows, strict=True)]

    @staticmethod
    def gives_tokens(values: Encoded) -> bool:
        """Whether there are logits for each token."""
        return len(values.values.shape) == len("nwv")

    def _activated(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        weights: NDArray[np.float32] = np.log1p(np.maximum(logits, 0))
        return np.log1p(weights) if self.config.activation == "log1p_relu" else weights

    def _of_tokens(self, values: Encoded) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """(ids, weights) of each text, of one number for each of its tokens."""
        if self._row is None:
            weight, bias = self._host
            self._row = values.ops.load(weight), None if bias is None else values.ops.load(bias)
        numbers = values.ops.fetch(values.ops.dense(values.values, *self._row, "relu"))[..., 0]
        batch = values.batch
        texts = zip(batch.ids, numbers, batch.lengths.tolist(), strict=True)
        return [largest(ids[:length], own[:length]) for ids, own, length in texts]

    def _chosen(self, ids: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
        return sparse_row(ids, weights, self.config.skip_ids, self.config.top_k)

    def close(self) -> None:
        self._row = None


def largest(ids: NDArray[Any], weights: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Each id once, in ascending order, with the largest of its weights."""
    unique, places = np.unique(ids, return_inverse=True)
    most = np.full(len(unique), -np.inf, np.float32)
    np.maximum.at(most, places, weights)
    return unique, most


def sparse_row(
    ids: NDArray[Any], weights: NDArray[Any], skip_ids: list[int], top_k: int | None = None
) -> NDArray[Any]:
    """`WEIGHT`[num_weights]: the weights that are not 0, without those of `skip_ids`, by id."""
    is_word = (weights != 0) & ~np.isin(ids, skip_ids)
    ids, weights = ids[is_word], weights[is_word]
    if top_k is not None and len(ids) > top_k:
        best = np.sort(np.argsort(-weights, kind="stable")[:top_k])
        ids, weights = ids[best], weights[best]
    row = np.empty(len(ids), WEIGHT)
    row["id"], row["weight"] = ids, weights
    return row


def vocabulary_above(resources: Loading) -> int:
    """How many ids the encoder of the body reads.  Raises `ModelError` where no line above is an encoder."""
    encoders = [node.encoder for node in resources.above.values() if isinstance(node, HasEncoder)]
    if not encoders:
        raise ModelError("no line above is an encoder, whose vocabulary is that of the vectors.")
    return encoders[0].vocab_size
