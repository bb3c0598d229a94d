"""The cite node: a chat request that holds passages, whose reply names those that it uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any

from pydantic import Field

from graphs.errors import hint
from graphs.graph import Graph, PortsBySettings, SettingError
from graphs.node import Node, NodeConfig, Port
from pipelines.nodes.composing.asked_request import for_client, with_question
from pipelines.nodes.composing.line_template import LineTemplate
from pipelines.nodes.composing.readable import READABLE, PassageView, view
from pipelines.nodes.composing.token_room import MOST_TOKENS, first_within
from pipelines.nodes.interface import Composer, Composing, Loading
from pipelines.nodes.naming import NamesGraphs, task_of
from pipelines.values.search_values import Hit, Hits
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import CitedInput, GenerationInput

TEMPLATE = """\
Answer the question from these passages. After what you take from a passage write its number, such as [1].

{{ passages }}

Question: {{ question }}"""
SYSTEM = "You answer from the passages that you are given, and say so where they do not hold the answer."
NAMES = ("passages", "question")
"""The names that the template may read."""


class Cite(NamesGraphs, Node, PortsBySettings, Composing):
    """Makes a chat request of the client's own: its last question is written anew, with passages above it.

    A line below answers it, such as `graph` or `choose`. Where the reply has the number of a passage in
    brackets, as `[2]`, the passage is a citation of the reply, in the form of each API.
    """

    class Config(NodeConfig):
        template: str = Field(
            default=TEMPLATE,
            description="the question with the passages: Jinja over `question` and `passages`: a text, "
            "numbered from 1, or a list with `text`, `heading`, `document`, `score`, `attributes`",
        )
        system: str | None = Field(
            default=SYSTEM, description="the system message, where the request has none; null: no message"
        )
        max_chars: int = Field(
            default=24_000, ge=1, description="characters of all passages; those that come later are left out"
        )
        max_tokens: int | None = Field(
            default=None,
            ge=1,
            le=MOST_TOKENS,
            description="tokens of all passages, by the tokenizer of `graph`; later ones are left out",
        )
        graph: str | None = Field(
            default=None, description="of `max_tokens`: name of the model that reads the passages"
        )

    @classmethod
    def names(cls, config: Any) -> Sequence[str]:
        return () if config.graph is None else (config.graph,)

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """The passages, the request, and the question where it is another text than the request's last."""
        if (config.max_tokens is None) != (config.graph is None):
            raise SettingError("`max_tokens` and `graph`, whose tokens they are, go together", "max_tokens")
        for name in cls.names(config):
            task_of(graph, name, ("chat", "completion"), "graph")
        names = LineTemplate(config.template).variables
        if unknown := [name for name in names if name not in NAMES]:
            raise SettingError(f"`template` reads `{unknown[0]}`{hint(unknown[0], NAMES)}", "template")
        if "passages" not in names:
            raise SettingError("`template` does not show the `passages`", "template")
        ports = {
            "passages": Port(Deferred[Hits], optional=False),
            "question": Port(READABLE, optional=True),
            "request": Port(GenerationInput, optional=False),
        }
        return ports, GenerationInput

    def load(self, resources: Loading) -> None:
        super().load(resources)
        self.template = LineTemplate(self.config.template)

    async def compose(
        self,
        call: Composer,
        passages: Hits,
        request: GenerationInput,
        question: Annotated[Any, READABLE] = None,
    ) -> GenerationInput:
        shown = self._shown(passages)
        if self.config.max_tokens is not None:
            counting = self.live_graph(self.config.graph)
            shown = await asyncio.to_thread(first_within, shown, counting, self.config.max_tokens)
        asked = view(request if question is None else question)
        named = {"passages": PassageView(shown), "question": str(asked)}
        text = await asyncio.to_thread(self.template.render, named)
        changed = for_client(request, _asking(request, text, self.config.system), text)
        own = {item.name: getattr(changed, item.name) for item in fields(GenerationInput)}
        return CitedInput(**own, passages=shown)

    def _shown(self, passages: Hits) -> list[Hit]:
        """The first passages that have room."""
        shown: list[Hit] = []
        room = self.config.max_chars
        for hit in passages.found[0] if passages.found else []:
            room -= len(hit.text)
            if room < 0:
                break
            shown.append(hit)
        return shown


def _asking(request: GenerationInput, text: str, system: str | None) -> list[dict[str, Any]]:
    """The conversation of a request with another last question."""
    around = with_question(request.messages or [], text)
    has_system = bool(around) and around[0].get("role") in ("system", "developer")
    return around if system is None or has_system else [{"role": "system", "content": system}, *around]
