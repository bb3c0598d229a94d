"""The ask node: a model is asked by a template over values of other lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from graphs.graph import Graph, PortsBySettings, SettingError
from graphs.node import NodeConfig, Port
from pipelines.nodes.composing.asked_request import for_client, of_line, with_question
from pipelines.nodes.composing.line_template import LineTemplate
from pipelines.nodes.composing.readable import READABLE, REQUEST, view
from pipelines.nodes.interface import AskedReply, Composer, Composing, Loading
from pipelines.nodes.naming import CALLED, NamesOne, task_of
from pipelines.values.tasks import TASKS, Constraint, GenerationInput, PromptInput


class Ask(NamesOne, PortsBySettings, Composing):
    """Asks a chat or completion model of the repository, by a template over values of other lines.

    Each name in the template is an input.  Other lines read the reply whole.  On the last line, and on one
    that a last line `speak` reads, the reply goes to the client as it comes, and what the request sets (its
    sampling, `n`, `stop`, tools, the form of the reply) takes precedence over the line's settings; other
    lines have their own settings alone.
    """

    class Config(NodeConfig):
        elsewhere = CALLED | {
            "prompt": "what is asked is the `template`",
            "question": "what is asked is the `template`",
        }

        graph: str = Field(description="name of a chat or completion model of the repository")
        template: str = Field(description="what is asked: Jinja, in which each name is an input of the line")
        system: str | None = Field(default=None, description="the system message; of chat models")
        conversation: bool = Field(
            default=False,
            description="whether the request's messages stand around it: it takes the place of the last one "
            "of the user",
        )
        max_tokens: int | None = Field(default=None, ge=1, description="longest reply; default: the context")
        temperature: float | None = Field(default=None, ge=0, le=2, description="0 is greedy")
        seed: int | None = Field(default=None, description="of the reply's random choices")
        stop: list[str] = Field(default=[], description="texts that end the reply")
        json_schema: dict[str, Any] | None = Field(
            default=None, description="the reply is JSON by this schema; lines read its `data`"
        )
        choice: list[str] | None = Field(
            default=None, min_length=1, description="the reply is one of these texts"
        )
        thinking: bool | None = Field(
            default=None, description="whether a model that can reason does; default: as its template says"
        )

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """An input for each name in the template, and the request."""
        task = task_of(graph, config.graph, ("chat", "completion"), "graph")
        if config.json_schema is not None and config.choice is not None:
            raise SettingError("`json_schema` and `choice` exclude each other", "choice")
        if task == "completion" and (config.system is not None or config.conversation):
            setting = "system" if config.system is not None else "conversation"
            raise SettingError(
                f"`{setting}` needs a chat model; the task of `{config.graph}` is `{task}`", setting
            )
        names = LineTemplate(config.template).variables
        ports = {name: Port(REQUEST if name == "request" else READABLE, optional=False) for name in names}
        return {**ports, "request": ports.get("request", Port(REQUEST, optional=True))}, TASKS[task].reply

    def load(self, resources: Loading) -> None:
        super().load(resources)
        self.template = LineTemplate(self.config.template)

    async def compose(
        self,
        call: Composer,
        request: Annotated[Any, REQUEST] = None,
        **values: Annotated[Any, "values with a text, by the names in the template"],
    ) -> AskedReply:
        shown = {name: view(value) for name, value in {"request": request, **values}.items()}
        text = await asyncio.to_thread(self.template.render, shown)
        graph: Any = self.named_graph()
        messages = None if graph.task == "completion" else self._messages(text, request)
        own = request if isinstance(request, GenerationInput) else call.request
        return await call.ask(graph, self._request(call.is_result, own, messages, text))

    def _messages(self, text: str, request: Any) -> list[dict[str, Any]]:
        """The conversation that the model gets."""
        shown = self.config.conversation and isinstance(request, PromptInput)
        before = (request.messages or []) if shown else []
        around = with_question(before, text)
        if self.config.system is None:
            return around
        return [{"role": "system", "content": self.config.system}, *around]

    def _request(
        self, is_result: bool, own: Any, messages: list[dict[str, Any]] | None, text: str
    ) -> GenerationInput:
        """What the model is asked; `own` is the client's request."""
        config = self.config
        named = {name: getattr(config, name) for name in ("max_tokens", "temperature", "seed")}
        sampling = {name: value for name, value in named.items() if value is not None}
        template_kwargs = {} if config.thinking is None else {"enable_thinking": config.thinking}
        if not is_result or not isinstance(own, GenerationInput):
            return of_line(
                messages,
                text,
                template_kwargs=template_kwargs,
                sampling=sampling,
                stop=config.stop,
                constraint=self._constraint(),
            )
        request = for_client(own, messages, text)
        return replace(
            request,
            sampling={**sampling, **request.sampling},
            stop=request.stop or config.stop,
            constraint=request.constraint or self._constraint(),
            template_kwargs={**template_kwargs, **request.template_kwargs},
        )

    def _constraint(self) -> Constraint | None:
        if self.config.choice is not None:
            return Constraint("choice", self.config.choice, "choice")
        if self.config.json_schema is not None:
            return Constraint("json_schema", self.config.json_schema, "json_schema")
        return None
