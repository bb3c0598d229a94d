"""The decide node: a question about a text with fixed answers, each with its probability."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from graphs.graph import Graph, PortsBySettings, SettingError
from graphs.node import NodeConfig, Port
from pipelines.base.errors import RequestError
from pipelines.nodes.composing.decider import decide
from pipelines.nodes.composing.readable import READABLE, text_in
from pipelines.nodes.decisions.questions import AnswerOption, Question
from pipelines.nodes.interface import Composer, Composing
from pipelines.nodes.naming import NamesOne, task_of
from pipelines.values.node_values import Classes
from pipelines.values.stream_values import Arrived, Deferred

YES, NO = "yes", "no"
MAX_OPTIONS = 255


class Decide(NamesOne, PortsBySettings, Composing):
    """Has a chat or completion model answer a question about a text by probabilities, as `/v1/decisions`.

    The answers are classes: `choose` takes them as cases, or compares the probability of one. The model reads
    the question and generates nothing.
    """

    class Config(NodeConfig):
        graph: str = Field(description="name of a chat or completion model of the repository")
        question: str = Field(
            min_length=1, description="what is asked; without `options` a statement that is true or not"
        )
        options: list[str] | None = Field(
            default=None,
            min_length=2,
            max_length=MAX_OPTIONS,
            description="the answers; default: yes and no, whether the statement is true",
        )

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """The graph that is named must be there, and generate text."""
        task_of(graph, config.graph, ("chat", "completion"), "graph")
        if config.options is not None and len(set(config.options)) < len(config.options):
            raise SettingError("`options` has an answer twice", "options")
        return {"text": Port(READABLE, optional=False)}, Deferred[Classes]

    async def compose(self, call: Composer, text: Annotated[Any, READABLE]) -> Deferred[Classes]:
        read = text_in(text)
        if not read:
            raise RequestError("there is no text to decide about")
        options = self.config.options
        question = asked(self.config.question, options)
        answer = await decide(call, self.named_graph(), question, read)
        labels = [NO, YES] if options is None else list(options)
        classes = Classes(np.array([answer.probabilities], np.float32), labels)
        call.note(labels[answer.best])
        return Deferred(Arrived(classes))


def asked(instructions: str, options: list[str] | None = None) -> Question:
    """A question of a line; without options whether a statement is true."""
    if options is None:
        truths = (AnswerOption(value=False), AnswerOption(value=True))
        return Question("predicate", name=None, where="question", instructions=instructions, options=truths)
    given = tuple(map(AnswerOption, options))
    return Question("choice", name=None, where="options", instructions=instructions, options=given)
