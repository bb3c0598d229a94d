"""The find node: passages for a text, from the index of another model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from graphs.graph import Graph, PortsBySettings
from graphs.node import NodeConfig, Port
from pipelines.base.errors import RequestError
from pipelines.nodes.composing.readable import READABLE, text_in
from pipelines.nodes.interface import AskedReply, Composer, Composing
from pipelines.nodes.naming import CALLED, NamesOne, task_of
from pipelines.retrieval.filters import where
from pipelines.values.node_values import Prompt
from pipelines.values.search_values import Hits
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import SearchInput


class Find(NamesOne, PortsBySettings, Composing):
    """Finds the passages of a search model of the repository that are nearest to a text."""

    class Config(NodeConfig):
        elsewhere = CALLED | {
            "index": "the search model is named by `graph`",
            "top_k": "how many passages is `top`",
        }

        graph: str = Field(description="name of a search model of the repository")
        top: int = Field(default=10, ge=1, le=1000, description="passages at most")
        filters: dict[str, Any] | None = Field(
            default=None, description="a condition on the attributes of documents, as requests write it"
        )
        weights: dict[str, float] = Field(
            default={}, description="what each kind of search counts for; default: as the index says"
        )
        rerank: bool = Field(
            default=True, description="whether the index's own line for that ranks them again"
        )
        least_score: float | None = Field(default=None, description="passages of a lower score are left out")

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """The graph that is named must be there."""
        task_of(graph, config.graph, ("search",), "graph")
        return {"query": Port(READABLE, optional=False)}, Deferred[Hits]

    async def compose(self, call: Composer, query: Annotated[Any, READABLE]) -> AskedReply:
        config, text = self.config, text_in(query)
        if not text:
            raise RequestError("there is no text to search for")
        if config.filters is not None:
            where(config.filters)
        request = SearchInput(
            prompts=[Prompt.of_text(text)],
            purpose="search_query",
            truncate_prompt_tokens=-1,
            top=config.top,
            filters=config.filters,
            weights=config.weights,
            rerank=config.rerank,
            least_score=config.least_score,
        )
        return await call.ask(self.named_graph(), request)
