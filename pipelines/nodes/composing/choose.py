"""The choose node: one of several models of the same task, by a value or by shares."""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from graphs.graph import Graph, PortsBySettings, SettingError
from graphs.node import NodeConfig, Port
from pipelines.base.errors import EngineError
from pipelines.nodes.composing.readable import INNER_REQUEST, READABLE, number_in, text_in
from pipelines.nodes.interface import AskedReply, Composer, HandingOn, Loading, NamedGraph
from pipelines.nodes.naming import NamesGraphs, task_of
from pipelines.values.tasks import TASKS, PromptInput

COMPARED = re.compile(r"\s*(>=|<=|>|<)\s*(-?\d+(?:\.\d+)?)\s*")
"""A case of a number."""
COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


class Choose(NamesGraphs, PortsBySettings, HandingOn):
    """Hands a request to one of several models of the same task.

    The first of the `cases` that the `value` fulfils gets the request, else `otherwise`. A case is a text
    that the value is (a class's label, a reply, a field of the request), without regard to its case, or a
    comparison of its number, as `">= 0.8"` (a score, the probability of a class, the length of a list).
    With `shares` no value is read: each session has one model, by its share of all sessions.
    """

    class Config(NodeConfig):
        cases: dict[str, str] = Field(default={}, description="case → name of a model; the first that holds")
        otherwise: str | None = Field(default=None, description="the model where no case holds")
        label: str | None = Field(
            default=None, description="the class whose probability is compared; default: the likeliest"
        )
        shares: dict[str, float] = Field(default={}, description="name of a model → its share of sessions")

    @classmethod
    def names(cls, config: Any) -> Sequence[str]:
        named = (*config.cases.values(), *config.shares, *([config.otherwise] if config.otherwise else []))
        return tuple(dict.fromkeys(named))

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """The request of the task of all models, and the value where there are cases."""
        _check_table(config)
        name, *others = cls.names(config)
        task = graph(name).task
        for other in others:
            task_of(graph, other, (task,), *_place_of(other, config))
        request = {"request": Port(TASKS[task].request, optional=False)}
        value = {"value": Port(READABLE, optional=False)} if config.cases else {}
        return {**value, **request}, TASKS[task].reply

    def load(self, resources: Loading) -> None:
        super().load(resources)
        self.table = [(case, COMPARED.fullmatch(case), name) for case, name in self.config.cases.items()]
        self.reads_text = any(compared is None for _, compared, _ in self.table)
        self.reads_number = any(compared is not None for _, compared, _ in self.table)

    async def compose(
        self,
        call: Composer,
        request: Annotated[Any, INNER_REQUEST],
        value: Annotated[Any, READABLE] = None,
    ) -> AskedReply:
        return await call.ask(*self.handed_on(call, request, value))

    def handed_on(self, call: Composer, request: Any, value: Any = None) -> tuple[NamedGraph, Any]:
        name = self._by_share(call, request) if self.config.shares else self._by_value(value)
        call.note(name)
        return self.live_graph(name), request

    def _by_value(self, value: Any) -> str:
        text = text_in(value).casefold() if self.reads_text else ""
        number = number_in(value, self.config.label) if self.reads_number else None
        for case, compared, name in self.table:
            if compared is None:
                holds = text == case.strip().casefold()
            elif number is None:
                shown = text_in(value)[:80]
                raise EngineError(f"the case `{case}` compares a number, and the value is {shown!r}")
            else:
                holds = COMPARE[compared[1]](number, float(compared[2]))
            if holds:
                return str(name)
        return str(self.config.otherwise)

    def _by_share(self, call: Composer, request: Any) -> str:
        """The model of a session: a number from 0 to 1 that it always has falls into one of the shares."""
        digest = hashlib.sha256(_session(call, request).encode()).digest()
        place = int.from_bytes(digest[:8], "big") / 2**64 * sum(self.config.shares.values())
        shares = [(name, share) for name, share in self.config.shares.items() if share]
        for name, share in shares:
            place -= share
            if place < 0:
                return str(name)
        return str(shares[-1][0])  # what sums round


def _check_table(config: Any) -> None:
    """Raises SettingError for settings that leave a request without a model, or give it two."""
    if config.shares and (config.cases or config.otherwise):
        raise SettingError("`shares` and `cases` exclude each other", "shares")
    if not config.shares and not config.cases:
        raise SettingError("`cases` or `shares` must name the models to choose from")
    if config.shares and not (min(config.shares.values()) >= 0 and sum(config.shares.values()) > 0):
        raise SettingError("`shares` must be 0 or more, and one of them more than 0", "shares")
    if config.cases and config.otherwise is None:
        raise SettingError("`otherwise` is missing: the model where no case holds", "cases")
    folded = [case.strip().casefold() for case in config.cases]
    if twice := [case for case in config.cases if folded.count(case.strip().casefold()) > 1]:
        raise SettingError(f"the case `{twice[0]}` is there twice", "cases", twice[0])
    for case in config.cases:
        if case.lstrip()[:1] in ("<", ">", "=") and not COMPARED.fullmatch(case):
            raise SettingError(f"the case `{case}` is no comparison; write it as `>= 0.8`", "cases", case)


def _place_of(name: str, config: Any) -> tuple[str, ...]:
    """The setting that names a model."""
    case = next((case for case, named in config.cases.items() if named == name), None)
    return ("cases", case) if case is not None else ("shares", name) if config.shares else ("otherwise",)


def _session(call: Composer, request: Any) -> str:
    """What a session's requests have alike: the client's, and how the conversation begins."""
    messages = request.messages or [] if isinstance(request, PromptInput) else []
    first = next((str(each.get("content")) for each in messages if each.get("role") == "user"), "")
    return f"{call.tenant}\n{first}"
