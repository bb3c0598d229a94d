"""The classify node: the classes of a text, by another model."""

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
from pipelines.values.node_values import Classes, Prompt
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import PoolingInput


class Classify(NamesOne, PortsBySettings, Composing):
    """Classifies a text by a model of the repository; a template gets the likeliest class."""

    class Config(NodeConfig):
        elsewhere = CALLED

        graph: str = Field(description="name of a model of the repository that classifies texts")

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """The graph that is named must be there, and classify."""
        task_of(graph, config.graph, ("classify",), "graph")
        return {"text": Port(READABLE, optional=False)}, Deferred[Classes]

    async def compose(self, call: Composer, text: Annotated[Any, READABLE]) -> AskedReply:
        read = text_in(text)
        if not read:
            raise RequestError("there is no text to classify")
        return await call.ask(
            self.named_graph(), PoolingInput(prompts=[Prompt.of_text(read)], truncate_prompt_tokens=-1)
        )
