"""The guard node: another model answers, and a judge reads the request before and the reply as it grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from graphs.graph import Graph, PortsBySettings
from graphs.node import Node, NodeConfig, Port
from pipelines.base.cancellation import WorkCancelled
from pipelines.base.errors import RequestCancelled, RequestError
from pipelines.nodes.composing.client_texts import (
    asked_texts,
    begun_reply,
    check_media,
    check_texts,
    conversation,
    with_reply,
)
from pipelines.nodes.composing.guarded_reply import GuardedReply, LookSettings
from pipelines.nodes.composing.judge import Judge, check_judge
from pipelines.nodes.composing.passed_reply import REFUSED, FixedReply
from pipelines.nodes.interface import AskedReply, Composer, Composing, NamedGraph
from pipelines.nodes.naming import NamesGraphs, task_of
from pipelines.values.tasks import TASKS, GenerationInput


class GuardNode(NamesGraphs, Node, PortsBySettings, Composing):
    """Has a model answer a request; a judge, which is a classifier or a guard model, can refuse both texts.

    What the user wrote is judged before anything else runs, and the reply as it grows: its text goes to the
    client only when it was judged.  What is refused is a 400, or the end of the reply by `content_filter`;
    with a `refusal` the client gets this text instead.
    """

    class Config(NodeConfig):
        graph: str = Field(description="name of the chat or completion model that answers")
        by: str = Field(description="name of the judge: a classifier, or a guard model")
        labels: list[str] | None = Field(
            default=None,
            min_length=1,
            description="labels of the classifier that are refused; default: those that its label line "
            "names in `moderation`",
        )
        threshold: float = Field(
            default=0.5, gt=0, le=1, description="probability of such a label from which on a text is refused"
        )
        checks: list[Literal["request", "reply"]] = Field(
            default=["request", "reply"], min_length=1, description="what is judged"
        )
        roles: list[Literal["user", "tool", "system", "assistant"]] = Field(
            default=["user", "tool"],
            min_length=1,
            description="whose messages of a request are judged; system: tools and arguments of the "
            "template too",
        )
        unjudged_media: bool = Field(
            default=False,
            description="whether images and sounds that the judge does not read go to the model; default: "
            "they are a 400 where requests are judged",
        )
        every: int = Field(default=16, ge=1, description="tokens of a reply between two looks at its text")
        window: int = Field(
            default=0,
            ge=0,
            description="last tokens of a judged text that are held back until the next look, since what "
            "follows may show what they are",
        )
        refusal: str | None = Field(
            default=None,
            min_length=1,
            description="what the client reads instead of a refused request's reply, or of the rest of a "
            "refused reply; default: a 400, or nothing",
        )

    @classmethod
    def names(cls, config: Any) -> Sequence[str]:
        return (config.graph, config.by)

    def named_graphs(self) -> Sequence[NamedGraph]:
        """The model that answers."""
        return [self.live_graph(self.config.graph)]

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """The ports of the model that answers."""
        task = task_of(graph, config.graph, ("chat", "completion"), "graph")
        task_of(graph, config.by, ("classify", "chat"), "by")
        check_judge(graph, config.by, config.labels)
        return {"request": Port(TASKS[task].request, optional=False)}, TASKS[task].reply

    async def compose(self, call: Composer, request: GenerationInput) -> AskedReply:
        judge, graph = self._judge(), self.live_graph(self.config.graph)
        roles = frozenset(self.config.roles)
        if "request" in self.config.checks:
            check_texts(request)
            if not self.config.unjudged_media:
                check_media(request, judge.sees)
            texts = await judge.parts(asked_texts(request, roles))
            try:
                fault = await judge.fault(call, texts, conversation(request, roles, judge.sees))
            except WorkCancelled:
                raise RequestCancelled from None
            if fault is not None:
                return self._refused(call, request, fault)
        asked = await call.ask(graph, request)
        if "reply" not in self.config.checks:
            call.note("passed")
            return asked
        looks = LookSettings(self.config.every, self.config.window, self.config.refusal)
        begun, said = begun_reply(request), conversation(request, roles, judge.sees)

        async def fault_of(text: str, num_judged: int) -> str | None:
            whole = begun + text
            new = await judge.parts([text[num_judged:]])
            texts = [whole] if len(new) == 1 else [*new, whole]
            return await judge.fault(call, texts, with_reply(said, whole, continues=bool(begun)))

        return GuardedReply(asked, looks, fault_of, call.note)

    def _judge(self) -> Judge:
        graph, labels = self.live_graph(self.config.by), self.config.labels
        return Judge(graph, labels, self.config.threshold)

    def _refused(self, call: Composer, request: GenerationInput, fault: str) -> AskedReply:
        call.note("request refused")
        if self.config.refusal is None:
            raise RequestError(f"the request was refused: {fault}", word=REFUSED)
        graph: Any = self.live_graph(self.config.graph)
        return FixedReply(self.config.refusal, max(1, len(request.prompts)) * request.n, graph.task == "chat")
