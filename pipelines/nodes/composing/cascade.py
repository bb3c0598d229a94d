"""The cascade node: a small model answers, and a larger one where the small one is not sure enough."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from graphs.graph import Graph, PortsBySettings, SettingError
from graphs.node import Node, NodeConfig, Port
from pipelines.base.errors import BraidError, RequestCancelled
from pipelines.nodes.composing.decide import asked
from pipelines.nodes.composing.decider import decide
from pipelines.nodes.composing.passed_reply import ABORTED, FILTERED, REFUSED, HeldReply
from pipelines.nodes.composing.readable import question
from pipelines.nodes.composing.sureness import MEASURES, with_logprobs
from pipelines.nodes.interface import AskedReply, Composer, Composing, NamedGraph
from pipelines.nodes.naming import NamesGraphs, task_of
from pipelines.values.composed_values import WholeReply
from pipelines.values.tasks import TASKS, GenerationInput

DECISION = "decision"
QUESTION = "The reply answers the request correctly and completely."


class Cascade(NamesGraphs, Node, PortsBySettings, Composing):
    """Has a small model answer, and a larger one where the small one's reply is not sure enough.

    Nothing is sent before that is known: the client reads the reply of one model.  The larger one also
    answers where the small one cannot, as when the prompt is too long for it.
    """

    class Config(NodeConfig):
        graph: str = Field(description="name of the chat or completion model that answers first")
        larger: str = Field(description="name of the model of the same task that answers otherwise")
        measure: Literal["mean_logprob", "least_logprob", "entropy", "decision"] = Field(
            default="mean_logprob",
            description="how sure a reply is: the mean or the least log-probability of its tokens, minus "
            "the mean entropy of the 20 likeliest tokens at each place, in nats, or the probability that a "
            "model gives the `question`",
        )
        at_least: float = Field(
            le=1,
            description="the first reply is taken where each choice is at least so sure: a probability for "
            "`decision`, else 0 or less",
        )
        by: str | None = Field(
            default=None,
            description="of `decision`: name of the chat or completion model that is asked; default: the "
            "larger one",
        )
        question: str = Field(
            default=QUESTION, min_length=1, description="of `decision`: a statement about request and reply"
        )
        drafts: bool = Field(
            default=True,
            description="whether the larger model verifies the first reply as draft tokens, where its graph "
            "has a `lookup` line: it is faster where it would write the same",
        )

    @classmethod
    def names(cls, config: Any) -> Sequence[str]:
        judge = config.by if config.by not in (config.graph, config.larger) else None
        return (config.graph, config.larger, *([judge] if judge else ()))

    def named_graphs(self) -> Sequence[NamedGraph]:
        """The larger one, which answers all requests that this line takes."""
        return [self.live_graph(self.config.larger)]

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """The ports of the two models."""
        task = task_of(graph, config.graph, ("chat", "completion"), "graph")
        task_of(graph, config.larger, (task,), "larger")
        _check_measure(config)
        if config.by is not None:
            task_of(graph, config.by, ("chat", "completion"), "by")
        return {"request": Port(TASKS[task].request, optional=False)}, TASKS[task].reply

    async def compose(self, call: Composer, request: GenerationInput) -> AskedReply:
        first = await self._first(call, request)
        if first is not None and await self._is_taken(call, request, first):
            call.note(self.config.graph)
            return first.shown(request.sampling.get("logprobs"))
        call.note(self.config.larger)
        if first is not None and self.config.drafts:
            request = replace(request, expected=first.choices[0].text)
        return await call.ask(self.live_graph(self.config.larger), request)

    async def _first(self, call: Composer, request: GenerationInput) -> HeldReply | None:
        """The small model's reply; None where it has none."""
        name = self.config.measure
        sent = request if name == DECISION else with_logprobs(request, MEASURES[name][1])
        try:
            return await HeldReply.of(await call.ask(self.live_graph(self.config.graph), sent))
        except BraidError as error:
            if error.word == REFUSED:
                raise
            return None

    async def _is_taken(self, call: Composer, request: GenerationInput, reply: HeldReply) -> bool:
        """Whether the small model's reply is sure enough, or was ended by a filter or by who may end it."""
        if any(choice.finish in (FILTERED, ABORTED) for choice in reply.choices):
            return True
        if self.config.measure == DECISION:
            shares = await asyncio.gather(*(self._share(call, request, each) for each in reply.choices))
        else:
            shares = [MEASURES[self.config.measure][0](choice) for choice in reply.choices]
        least: float = self.config.at_least
        return min(shares) >= least

    async def _share(self, call: Composer, request: GenerationInput, choice: WholeReply) -> float:
        """How probable a model finds it that the question holds of a choice; 0 where it cannot be asked."""
        graph = self.live_graph(self.config.by or self.config.larger)
        text = f"Request: {question(request)}\n\nReply: {choice.text}"
        calls = "".join(f" {piece.name or ''} {piece.arguments}" for piece in choice.calls)
        try:
            answer = await decide(call, graph, asked(self.config.question), text + calls)
        except RequestCancelled:
            raise
        except BraidError:
            return 0.0
        return (answer.probabilities or [0.0, 0.0])[1]


def _check_measure(config: Any) -> None:
    """Raise SettingError for settings that do not belong to the measure."""
    if config.measure == DECISION:
        if config.at_least < 0:
            raise SettingError(
                "`at_least` is a probability, from 0 to 1, for `measure: decision`", "at_least"
            )
        return
    if config.at_least > 0:
        raise SettingError(
            f"`at_least` is 0 or less for `measure: {config.measure}`: log-probabilities are", "at_least"
        )
    for name in ("by", "question"):
        if name in config.model_fields_set:
            raise SettingError(f"`{name}` is of `measure: decision`", name)
