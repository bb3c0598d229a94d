"""The rank node: one score for each pair of a query and a document, the best of its parts' scores."""

from __future__ import annotations

import numpy as np

from graphs.node import Node, NodeConfig
from pipelines.base.errors import EngineError
from pipelines.nodes.interface import Running
from pipelines.values.node_values import PooledOutputs, Scores, Tokens
from pipelines.values.stream_values import Deferred


class Rank(Node):
    """Turns outputs of one number each into the scores of the request's pairs, in its order."""

    class Config(NodeConfig):
        elsewhere = {"graph": "a line that asks a model that ranks is of type `rerank_hits`"}

    def run(self, call: Running, scores: Deferred[PooledOutputs], pairs: list[Tokens]) -> Deferred[Scores]:
        of = np.array([tokens.of for tokens in pairs])
        return scores.map(lambda pooled: Scores(best(pooled, of)))


def best(pooled: PooledOutputs, of: np.ndarray) -> np.ndarray:
    """The highest output of each pair, float32[num_pairs]; `of`, int[num_outputs], is the pair of each
    output.

    Raises EngineError for outputs of more than one number.
    """
    if isinstance(pooled.values, list) or pooled.values.ndim != 2 or pooled.values.shape[1] != 1:
        shape = (
            "a vector per token" if isinstance(pooled.values, list) else f"{pooled.values.shape[1:]} numbers"
        )
        raise EngineError(f"a rank node needs one number for each text; this model gives {shape}")
    scores = np.full(of.max(initial=-1) + 1, -np.inf, np.float32)
    np.maximum.at(scores, of, pooled.values[:, 0])
    return scores
