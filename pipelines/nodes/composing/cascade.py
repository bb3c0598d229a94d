"""The cascade node: a small model answers, and a larger one where the small one is not sure enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from graphs.graph import Graph, PortsBySettings
from graphs.node import Node, NodeConfig, Port
from pipelines.base.errors import BraidError
from pipelines.nodes.composing.passed_reply import FILTERED, REFUSED, HeldReply
from pipelines.nodes.composing.sureness import MEASURES, with_logprobs
from pipelines.nodes.interface import AskedReply, Composer, Composing, NamedGraph
from pipelines.nodes.naming import NamesGraphs, task_of
from pipelines.values.tasks import TASKS, GenerationInput


class Cascade(NamesGraphs, Node, PortsBySettings, Composing):
    """Has a small model answer, and a larger one where the small one's reply is not sure enough.

    Nothing is sent before that is known: the client reads the reply of one model.  The larger one also
    answers where the small one cannot, as when the prompt is too long for it.
    """

    class Config(NodeConfig):
        graph: str = Field(description="name of the chat or completion model that answers first")
        larger: str = Field(description="name of the model of the same task that answers otherwise")
        measure: Literal["mean_logprob", "least_logprob", "entropy"] = Field(
            default="mean_logprob",
            description="how sure a reply is: the mean or the least log-probability of its tokens, or minus "
            "the mean entropy of the 20 likeliest tokens at each place, in nats",
        )
        at_least: float = Field(
            le=0, description="the first reply is taken where each choice is at least so sure"
        )

    @classmethod
    def names(cls, config: Any) -> Sequence[str]:
        return (config.graph, config.larger)

    def named_graphs(self) -> Sequence[NamedGraph]:
        """The larger one, which answers all requests that this line takes."""
        return [self.live_graph(self.config.larger)]

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """The ports of the two models."""
        task = task_of(graph, config.graph, ("chat", "completion"), "graph")
        task_of(graph, config.larger, (task,), "larger")
        return {"request": Port(TASKS[task].request, optional=False)}, TASKS[task].reply

    async def compose(self, call: Composer, request: GenerationInput) -> AskedReply:
        small = await self._small(call, request)
        if small is not None:
            call.note(self.config.graph)
            return small
        call.note(self.config.larger)
        return await call.ask(self.live_graph(self.config.larger), request)

    async def _small(self, call: Composer, request: GenerationInput) -> HeldReply | None:
        """The small model's reply; None where it is not taken."""
        measure, num = MEASURES[self.config.measure]
        try:
            asked = await call.ask(self.live_graph(self.config.graph), with_logprobs(request, num))
            reply = await HeldReply.of(asked)
        except BraidError as error:
            if error.word == REFUSED:
                raise
            return None
        is_filtered = any(choice.finish == FILTERED for choice in reply.choices)
        if not is_filtered and min(map(measure, reply.choices)) < self.config.at_least:
            return None
        return reply.shown(request.sampling.get("logprobs"))
