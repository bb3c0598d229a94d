"""The search node: on the worker it sends a question to the index, in the engine host it makes the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec
from pydantic import Field

from graphs.node import BodyContract, Node, NodeConfig, Place
from pipelines.base.errors import EngineError
from pipelines.host.engine.batching.tensor_engine import TensorBatching, TensorEngine
from pipelines.nodes.interface import Checking, Loading, Running
from pipelines.nodes.request_plan import RequestPlan
from pipelines.nodes.retrieval.body.index import INPUTS, OUTPUTS, Index, Wanted, as_tensors, hits_of
from pipelines.retrieval.filters import where
from pipelines.retrieval.index_reader import query_vectors
from pipelines.values.node_values import PooledOutputs, Tensors
from pipelines.values.search_values import SEARCH_KINDS, Hits
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import SearchInput

if TYPE_CHECKING:
    from pipelines.nodes.body_interface import Body


class PassageSearch(Node, Checking):
    """Finds the passages that are nearest to a question, by its vector, its words, or both."""

    place: ClassVar[Place] = "engine"
    body = BodyContract(root="batch", gives=Tensors, result=Tensors)

    class Config(NodeConfig):
        weights: dict[str, float] = Field(
            default={"dense": 1.0},
            description="what each kind of search counts for where the request does not say: `dense` "
            "(vectors) and `text` (words); of several the ranks are fused",
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

    def check(self, request: SearchInput, plan: RequestPlan) -> None:
        if request.filters is not None:
            where(request.filters)

    def run(self, call: Running, vectors: Deferred[PooledOutputs], request: SearchInput) -> Deferred[Hits]:
        queries = [prompt.text or "" for prompt in request.prompts]
        wanted = Wanted(
            queries,
            max(request.top, self.config.candidates),
            request.weights or self.config.weights,
            msgspec.Raw(msgspec.json.encode(request.filters)),
        )

        def search(pooled: PooledOutputs) -> Deferred[Hits]:
            try:
                query_rows = query_vectors(pooled.values)
            except ValueError as error:
                raise EngineError(str(error)) from None
            reply = call.infer(self.address, as_tensors(query_rows, wanted))
            return reply.map(lambda tensors: _chosen(Hits(queries, hits_of(tensors)), request))

        return vectors.map(search)

    def start(self, body: Body) -> TensorEngine:
        """The engine around the index, which it owns from now on.  Raises ValueError for another body."""
        if [type(line.node) for line in body.lines] != [Index]:
            raise ValueError("its body must be one line of type `index`")
        settings = TensorBatching(num_runs=self.config.max_runs, max_waiting=self.config.max_waiting)
        return TensorEngine(body, INPUTS, OUTPUTS, settings, body.profile)


def _chosen(hits: Hits, request: SearchInput) -> Hits:
    """The hits without those of a low score."""
    least = request.least_score
    if least is None:
        return hits
    return Hits(hits.queries, [[hit for hit in found if hit.score >= least] for found in hits.found])
