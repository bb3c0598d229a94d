"""The matryoshka node: shorter vectors, of a model that was trained for that (Kusupati et al., 2022)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from graphs.node import Node, NodeConfig
from ops.activations import unit_length
from pipelines.base.errors import RequestError
from pipelines.nodes.interface import Planning, Running
from pipelines.nodes.request_plan import RequestPlan
from pipelines.values.node_values import PooledOutputs, SparseVectors, Vectors
from pipelines.values.stream_values import Deferred


class Matryoshka(Node, Planning):
    """Cuts each vector to the number of dimensions that the request sets, and normalizes it again."""

    class Config(NodeConfig):
        dimensions: list[int] | None = Field(
            default=None,
            min_length=1,
            description="lengths that the model was trained for; default: any up to its own",
        )

    def plan(self, request: Any) -> RequestPlan:
        return RequestPlan(handled=frozenset({"dimensions"}))

    def run(self, call: Running, pooled: Deferred[PooledOutputs]) -> Deferred[PooledOutputs]:
        wanted, activate = call.request.dimensions, call.request.activate
        if wanted is None:
            return pooled
        known = self.config.dimensions
        if known is not None and wanted not in known:
            raise RequestError(
                f"Model '{call.model}' only supports Matryoshka dimensions {sorted(known)}, got {wanted}.",
                "dimensions",
            )
        return pooled.map(lambda vectors: shortened(vectors, wanted, activate, call.model))


def shortened(pooled: PooledOutputs, size: int, activate: bool, model: str) -> PooledOutputs:
    """The first `size` numbers of each vector, normalized again if `activate`.

    Raises RequestError, with vLLM's text, for a size that no vector has.
    """
    cut = {name: _shorter(values, size, activate, model) for name, values in pooled.named.items()}
    first = next(iter(cut.values())) if cut else _shorter(pooled.vectors, size, activate, model)
    return PooledOutputs(first, named=cut)


def _shorter(vectors: Vectors, size: int, activate: bool, model: str) -> Vectors:
    """The first numbers of each vector; sparse ones stay as they are."""
    if isinstance(vectors, SparseVectors):
        return vectors
    if isinstance(vectors, list):
        return [_cut(values, size, activate, model) for values in vectors]
    return _cut(vectors, size, activate, model)


def _cut(values: NDArray[np.float32], size: int, activate: bool, model: str) -> NDArray[np.float32]:
    if not 1 <= size <= values.shape[1]:
        raise RequestError(
            f"Model '{model}' only supports dimensions in range [1, {values.shape[1]}], got {size}.",
            "dimensions",
        )
    shorter = np.ascontiguousarray(values[:, :size])
    return unit_length(shorter) if activate else shorter
