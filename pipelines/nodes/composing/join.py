"""The join node: several models get one request at once, and their replies become one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from graphs.graph import Graph, PortsBySettings, SettingError
from graphs.node import Node, NodeConfig, Port
from pipelines.base.errors import RequestError
from pipelines.nodes.composing.merging import fused_hits, fused_scores, mean_classes
from pipelines.nodes.composing.passed_reply import HeldReply, answer_of
from pipelines.nodes.composing.readable import INNER_REQUEST, question
from pipelines.nodes.composing.sureness import mean_logprob, with_logprobs
from pipelines.nodes.interface import AskedReply, Composer, Composing, NamedGraph
from pipelines.nodes.naming import NamesGraphs, task_of
from pipelines.values.node_values import Prompt, Scores
from pipelines.values.stream_values import Arrived, Deferred
from pipelines.values.tasks import TASKS, GenerationInput, PoolingInput

How = Literal["best", "majority", "mean", "fuse"]
HOWS: Mapping[str, tuple[How, ...]] = {
    "chat": ("best", "majority"),
    "completion": ("best", "majority"),
    "classify": ("mean",),
    "rerank": ("fuse",),
    "search": ("fuse",),
}
"""Task → how its replies may be merged."""
MERGES: Mapping[str, Callable[..., Any]] = {
    "classify": mean_classes,
    "rerank": fused_scores,
    "search": fused_hits,
}
"""Task → what merges replies that come whole: of the request, the replies and their weights."""


class Join(NamesGraphs, Node, PortsBySettings, Composing):
    """Has several models of one task answer a request at once, and makes one reply of theirs.

    Of texts one is chosen, before anything is sent: the best by a ranking model or by its own mean
    log-probability, or the one that most models wrote.  Probabilities of classes are averaged, and rankings
    are fused by their ranks.
    """

    class Config(NodeConfig):
        graphs: list[str] = Field(min_length=2, max_length=8, description="names of the models, of one task")
        how: How = Field(
            description="best: the text with the best score; majority: the text that most wrote, without "
            "regard to case, of equally many the first; mean: probabilities of classes, averaged; fuse: "
            "rankings and passages, by reciprocal rank fusion"
        )
        by: str | None = Field(
            default=None,
            description="of `best`: name of the ranking model that scores each text as an answer; default: "
            "the mean log-probability of its tokens",
        )
        weights: list[float] | None = Field(
            default=None, description="of `mean` and `fuse`: what each model counts for; default: alike"
        )

    @classmethod
    def names(cls, config: Any) -> Sequence[str]:
        return (*config.graphs, *([config.by] if config.by is not None else ()))

    def named_graphs(self) -> Sequence[NamedGraph]:
        """The models that answer."""
        return [self.live_graph(name) for name in self.config.graphs]

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """The ports of the models' task."""
        task = task_of(graph, config.graphs[0], tuple(HOWS), "graphs", 0)
        for at, name in enumerate(config.graphs):
            task_of(graph, name, (task,), "graphs", at)
        if config.how not in HOWS[task]:
            words = " or ".join(f"`{word}`" for word in HOWS[task])
            raise SettingError(
                f"replies of the task `{task}` are merged by {words}, not `{config.how}`", "how"
            )
        if config.by is not None:
            if config.how != "best":
                raise SettingError("`by` is of `how: best`", "by")
            task_of(graph, config.by, ("rerank",), "by")
        _check_weights(config)
        return {"request": Port(TASKS[task].request, optional=False)}, TASKS[task].reply

    async def compose(
        self, call: Composer, request: Annotated[Any, INNER_REQUEST]
    ) -> Annotated[Any, "the reply of a model"]:
        if self.config.how in ("mean", "fuse"):
            return await self._merged(call, request)
        if request.n > 1 or len(request.prompts) > 1:
            raise RequestError("this model's graph gives one choice of several models", "n")
        by_logprob = self.config.how == "best" and self.config.by is None
        asked = await self._ask(call, with_logprobs(request, 0) if by_logprob else request)
        replies = await asyncio.gather(*map(HeldReply.of, asked))
        chosen = await self._chosen(call, request, [reply.choices[0].text for reply in replies], replies)
        call.note(self.config.graphs[chosen])
        return replies[chosen].shown(request.sampling.get("logprobs"))

    async def _ask(self, call: Composer, request: Any) -> list[AskedReply]:
        return await asyncio.gather(*(call.ask(graph, request) for graph in self.named_graphs()))

    async def _merged(self, call: Composer, request: Any) -> Deferred[Any]:
        asked = await self._ask(call, request)
        replies = await asyncio.gather(*map(answer_of, asked))
        graph: Any = self.live_graph(self.config.graphs[0])
        weights = self.config.weights or [1.0] * len(replies)
        return Deferred(Arrived(MERGES[graph.task](request, replies, weights)))

    async def _chosen(
        self, call: Composer, request: GenerationInput, texts: list[str], replies: list[HeldReply]
    ) -> int:
        """The place of the reply that is taken; of equally good ones the first."""
        if self.config.how == "majority":
            plain = [" ".join(text.split()).casefold() for text in texts]
            return plain.index(Counter(plain).most_common(1)[0][0])
        if self.config.by is None:
            scores = [mean_logprob(reply.choices[0]) for reply in replies]
        else:
            scores = await self._scored(call, question(request), texts)
        return scores.index(max(scores))

    async def _scored(self, call: Composer, asked: str, texts: list[str]) -> list[float]:
        """How good an answer the ranking model finds each text."""
        pairs = [(Prompt.of_text(asked), Prompt.of_text(text)) for text in texts]
        reply = await call.ask(
            self.live_graph(self.config.by), PoolingInput(pairs=pairs, truncate_prompt_tokens=-1)
        )
        scores: Scores = await answer_of(reply)
        return list(map(float, scores.values))


def _check_weights(config: Any) -> None:
    if config.weights is None:
        return
    if config.how not in ("mean", "fuse"):
        raise SettingError("`weights` are of `how: mean` and `how: fuse`", "weights")
    if len(config.weights) != len(config.graphs) or min(config.weights) < 0 or not sum(config.weights):
        raise SettingError(
            f"`weights` must be {len(config.graphs)} numbers, one for each model, none below 0 and not all 0",
            "weights",
        )
