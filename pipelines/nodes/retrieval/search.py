"""The search node: on the worker it sends a question to the index, in the engine host it makes the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np
from pydantic import Field

from graphs.node import BodyContract, Node, NodeConfig, Place
from pipelines.base.errors import EngineError
from pipelines.inference.engine.batching.tensor_engine import TensorBatching, TensorEngine
from pipelines.nodes.interface import Checking, Loading, Planning, Running
from pipelines.nodes.request_plan import RequestPlan
from pipelines.nodes.retrieval.body.index import INPUTS, OUTPUTS, Index, Wanted, as_tensors, hits_of
from pipelines.retrieval.dense_vectors import Floats
from pipelines.retrieval.filters import where
from pipelines.retrieval.index_version import query_vectors
from pipelines.values.node_values import PooledOutputs, SparseVectors, Tensors
from pipelines.values.search_values import SEARCH_KINDS, VECTOR_KINDS, Hits
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import SearchInput

if TYPE_CHECKING:
    from pipelines.nodes.body_interface import Body


class PassageSearch(Node, Planning, Checking):
    """Finds the passages that are nearest to a question, by its vectors, its words, or several of these."""

    place: ClassVar[Place] = "engine"
    body = BodyContract(root="batch", gives=Tensors, result=Tensors)

    class Config(NodeConfig):
        elsewhere = {"graph": "a line that asks a search model is of type `find`"}

        weights: dict[str, float] = Field(
            default={"dense": 1.0},
            description="what each kind of search counts for where the request does not say: `dense` "
            "and `sparse` (vectors) and `text` (words); of several the ranks are fused",
        )
        candidates: int = Field(
            default=0,
            ge=0,
            le=1000,
            description="least number of passages that are found, for a line below that ranks them again",
        )
        max_runs: int = Field(default=1, ge=1, le=64, description="searches at the same time")
        max_waiting: int = Field(default=256, ge=1, description="requests that may wait; more get a 429")

    def load(self, resources: Loading) -> None:
        """Raises ValueError for kinds of search that there are not."""
        self.address = resources.address
        if unknown := self.config.weights.keys() - set(SEARCH_KINDS):
            raise ValueError(
                f"weights: no kind of search is named {min(unknown)}; there are {', '.join(SEARCH_KINDS)}"
            )

    def plan(self, request: SearchInput) -> RequestPlan:
        kinds = tuple(kind for kind in VECTOR_KINDS if self._weights(request).get(kind))
        return RequestPlan(results=kinds if "sparse" in kinds else ())

    def _weights(self, request: SearchInput) -> dict[str, float]:
        return request.weights or self.config.weights

    def check(self, request: SearchInput, plan: RequestPlan) -> None:
        if request.filters is not None:
            where(request.filters)

    def run(self, call: Running, vectors: Deferred[PooledOutputs], request: SearchInput) -> Deferred[Hits]:
        queries = [prompt.text or "" for prompt in request.prompts]
        filters = msgspec.Raw(msgspec.json.encode(request.filters))
        wanted = Wanted(queries, max(request.top, self.config.candidates), self._weights(request), filters)

        def search(pooled: PooledOutputs) -> Deferred[Hits]:
            whole = msgspec.structs.replace(wanted, terms=_terms(pooled))
            reply = call.infer(self.address, as_tensors(_dense(pooled, len(queries)), whole))
            return reply.map(lambda tensors: _chosen(Hits(queries, hits_of(tensors)), request))

        return vectors.map(search)

    def start(self, body: Body) -> TensorEngine:
        """The engine around the index, which it owns from now on.  Raises ValueError for another body."""
        if [type(line.node) for line in body.lines] != [Index]:
            raise ValueError("its body must be one line of type `index`")
        settings = TensorBatching(num_runs=self.config.max_runs, max_waiting=self.config.max_waiting)
        return TensorEngine(body, INPUTS, OUTPUTS, settings, body.profile)


def _dense(pooled: PooledOutputs, num_queries: int) -> Floats:
    """float32[queries, size]; a size of 1 where the model gave sparse vectors alone.  Raises EngineError."""
    vectors = pooled.named.get("dense", pooled.vectors)
    if isinstance(vectors, SparseVectors):
        return np.zeros((num_queries, 1), np.float32)
    try:
        return query_vectors(vectors)
    except ValueError as error:
        raise EngineError(str(error)) from None


def _terms(pooled: PooledOutputs) -> list[tuple[list[int], list[float]]] | None:
    """The ids and weights of each query's sparse vector, where the model was asked for them."""
    sparse = pooled.named.get("sparse")
    if not isinstance(sparse, SparseVectors):
        return None
    return [(ids.tolist(), weights.tolist()) for ids, weights in sparse]


def _chosen(hits: Hits, request: SearchInput) -> Hits:
    """The hits without those of a low score."""
    least = request.least_score
    if least is None:
        return hits
    return Hits(hits.queries, [[hit for hit in found if hit.score >= least] for found in hits.found])
