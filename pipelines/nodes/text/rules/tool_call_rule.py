"""Tool calls in a reply: one rule for the parser that finds them and for the format that restricts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pipelines.grammars.formats import GrammarWriter
from pipelines.nodes.text.parsers.tables import TOOLS, ToolParser
from pipelines.nodes.text.parsers.tools import forced, forms
from pipelines.nodes.text.parsers.tools.calls import CallFinder
from pipelines.nodes.text.parsers.tools.generic import GENERIC, GenericReply
from pipelines.nodes.text.rules.held_texts import held_text
from pipelines.nodes.text.rules.held_tools import grammar_of_calls, with_parameters
from pipelines.values.tasks import GenerationInput
from pipelines.wire.sampling_params import HeldCalls

REQUIRED = "required"
Tool = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCallRule:
    """A family of tool-call formats; None: calls only where the request demands them, as plain JSON."""

    family: str | None

    def applies(self, request: GenerationInput) -> bool:
        """Whether calls are looked for in the reply to this request."""
        return must_call(request) or bool(self.family and request.tools and request.parse_tools)

    def parser(self, request: GenerationInput) -> ToolParser:
        """A new parser for the calls of one choice; only for requests that the rule applies to."""
        if self.family == GENERIC:
            return GenericReply()
        if self.family is None or (must_call(request) and self.family not in forms.FORMS):
            named = request.tool_choice if names_tool(request) else None
            return CallFinder(forced.PLAIN) if named is None else forced.ArgumentsOf(named)
        return TOOLS[self.family](request.tools)

    def reply_grammar(self, request: GenerationInput, write: GrammarWriter) -> str | None:
        """What the whole reply must be because of its tools; None where that is nothing.

        Where the reply is constrained anyway, it is what the constraint allows, or calls.  Raises
        RequestError for a `strict` tool whose schema has no grammar.
        """
        form = self._form
        if must_call(request):
            return grammar_of_calls(
                _callable(request), partial(_forced, form, request), write, must_call=True
            )
        answer = self._answer(request, write)
        if form is None or answer is None or not self.applies(request):
            return None

        def either(tools: Sequence[Tool]) -> forms.Format:
            calls = forms.calls(form, tools, parallel=request.parallel_calls)
            return {"type": "or", "elements": [answer, calls]}

        return grammar_of_calls(_held_tools(request), either, write)

    @property
    def _form(self) -> forms.CallForm | None:
        return forms.GENERIC if self.family == GENERIC else forms.FORMS.get(self.family or "")

    def _answer(self, request: GenerationInput, write: GrammarWriter) -> forms.Format | None:
        """What a reply without calls must be; None for anything."""
        if request.constraint is not None:
            from pipelines.grammars.held_formats import held_format  # most requests have no constraint

            return held_format(request.constraint, write)
        return forms.response() if self.family == GENERIC else None

    def held_calls(self, request: GenerationInput, write: GrammarWriter) -> HeldCalls | None:
        """How the calls that a model may make in free text are held to the declared tools.

        None where the family's form of calls has no grammar.  Raises RequestError as `reply_grammar`.
        """
        form = self._form
        if request.constraint is not None or must_call(request) or not self.applies(request):
            return None
        if form is None or not form.trigger:
            return None if form is forms.GENERIC else held_text(self.family, request.text_formats, write)
        after = partial(forms.after_trigger, form, parallel=request.parallel_calls)
        text = grammar_of_calls([_open(tool) for tool in _held_tools(request)], after, write)
        return HeldCalls(form.trigger, text, once=not request.parallel_calls)


def must_call(request: GenerationInput) -> bool:
    """Whether the request demands a tool call."""
    return bool(request.tools and request.parse_tools and request.tool_choice is not None)


def names_tool(request: GenerationInput) -> bool:
    """Whether the request names the tool that must be called."""
    return must_call(request) and request.tool_choice != REQUIRED


def _callable(request: GenerationInput) -> Sequence[Tool]:
    """The tools that a demanded call may be of."""
    tools = _held_tools(request)
    if not names_tool(request):
        return tools
    return [tool for tool in tools if tool["function"]["name"] == request.tool_choice]


def _held_tools(request: GenerationInput) -> Sequence[Tool]:
    """The tools of a request; those that take one text have its format, which must be held."""
    formats = request.text_formats
    if not formats:
        return request.tools
    return [_with_text(tool, formats.get(tool["function"]["name"])) for tool in request.tools]


def _with_text(tool: Tool, format: forms.Format | None) -> Tool:
    if format is None:
        return tool
    return {**tool, "function": {**tool["function"], "strict": True, "text_format": format}}


def _forced(form: forms.CallForm | None, request: GenerationInput, tools: Sequence[Tool]) -> forms.Format:
    if not names_tool(request):
        return forms.calls(form or forms.PLAIN, tools, parallel=request.parallel_calls)
    return forms.arguments(tools[0]["function"]) if form is None else forms.calls(form, tools, parallel=False)


def _open(tool: Tool) -> Tool:
    """A tool that is not `strict` and declares nothing takes any arguments."""
    function = tool["function"]
    return tool if function.get("strict") or function.get("parameters") else with_parameters(tool, {})
