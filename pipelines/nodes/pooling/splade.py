"""The splade node: how much each word of the vocabulary matters in a text (Formal et al., 2021)."""

from __future__ import annotations

import numpy as np

from graphs.node import Node
from pipelines.base.errors import EngineError
from pipelines.nodes.interface import Running
from pipelines.values.node_values import PooledOutputs
from pipelines.values.stream_values import Deferred


class Splade(Node):
    """Turns the highest logit of each word into its weight, log(1 + max(logit, 0)): most are 0."""

    def run(self, call: Running, pooled: Deferred[PooledOutputs]) -> Deferred[PooledOutputs]:
        return pooled.map(weights)


def weights(pooled: PooledOutputs) -> PooledOutputs:
    """The weights, float32[num_texts, vocabulary].  Raises EngineError for vectors of tokens."""
    if isinstance(pooled.values, list):
        raise EngineError("a splade node needs a vector for each text; put `pool` with `how: max` above")
    return PooledOutputs(np.log1p(np.maximum(pooled.values, 0)))
