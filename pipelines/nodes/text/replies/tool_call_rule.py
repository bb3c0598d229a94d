"""Tool calls in a reply: one rule for the parser that finds them and for the format that restricts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.errors import RequestError
from pipelines.grammars.formats import GrammarWriter, format_of
from pipelines.nodes.text.parsers import TOOLS, ToolParser
from pipelines.nodes.text.parsers.tools import forced, forms
from pipelines.nodes.text.parsers.tools.calls import CallFinder
from pipelines.tasks import GenerationInput
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
        if self.family is None or (must_call(request) and self.family not in forms.FORMS):
            named = request.tool_choice if names_tool(request) else None
            return CallFinder(forced.PLAIN) if named is None else forced.ArgumentsOf(named)
        return TOOLS[self.family](request.tools)

    def reply_format(self, request: GenerationInput) -> forms.Format | None:
        """What the whole reply must be because of its tools; None where that is nothing.

        Where the reply is constrained anyway, it is what the constraint allows, or calls.
        """
        form = forms.FORMS.get(self.family or "")
        if must_call(request):
            return _forced(form, request)
        if form is None or request.constraint is None or not self.applies(request):
            return None
        calls = forms.calls(form, request.tools, parallel=request.parallel_calls)
        return {"type": "or", "elements": [format_of(request.constraint), calls]}

    def held_calls(self, request: GenerationInput, write: GrammarWriter) -> HeldCalls | None:
        """How the calls that a model may make in free text are held to the declared tools.

        None where the family's form of calls has no grammar.  Of a tool that is not `strict` and whose schema
        has no grammar, the names of the parameters are held.  Raises RequestError for one that is `strict`.
        """
        form = forms.FORMS.get(self.family or "")
        free = request.constraint is None and not must_call(request) and self.applies(request)
        if form is None or not form.trigger or not free:
            return None

        def grammar(tools: forms.Tools) -> str:
            return write(forms.after_trigger(form, tools, parallel=request.parallel_calls), "tools")

        tools = [_open(tool) for tool in request.tools]
        try:
            text = grammar(tools)
        except RequestError:
            text = grammar([tool if _has_grammar(tool, write) else _by_names(tool) for tool in tools])
        return HeldCalls(form.trigger, text, once=not request.parallel_calls)


def must_call(request: GenerationInput) -> bool:
    """Whether the request demands a tool call."""
    return bool(request.tools and request.parse_tools and request.tool_choice is not None)


def names_tool(request: GenerationInput) -> bool:
    """Whether the request names the tool that must be called."""
    return must_call(request) and request.tool_choice != REQUIRED


def _forced(form: forms.CallForm | None, request: GenerationInput) -> forms.Format:
    if not names_tool(request):
        return forms.calls(form or forms.PLAIN, request.tools, parallel=request.parallel_calls)
    tools = [tool for tool in request.tools if tool["function"]["name"] == request.tool_choice]
    if form is None:
        return forms.arguments(tools[0]["function"])
    return forms.calls(form, tools, parallel=False)


def _open(tool: Tool) -> Tool:
    """A tool that is not `strict` and declares nothing takes any arguments."""
    function = tool["function"]
    return tool if function.get("strict") or function.get("parameters") else _with(tool, {})


def _has_grammar(tool: Tool, write: GrammarWriter) -> bool:
    if tool["function"].get("strict"):
        return True
    try:
        write(forms.arguments(tool["function"]), "tools")
    except RequestError:
        return False
    return True


def _by_names(tool: Tool) -> Tool:
    """The tool with its parameters' names, and any values."""
    properties = tool["function"]["parameters"].get("properties")
    names: dict[str, Any] = {name: {} for name in properties} if isinstance(properties, dict) else {}
    return _with(tool, {"properties": names} if names else {})


def _with(tool: Tool, parameters: dict[str, Any]) -> Tool:
    return {**tool, "function": {**tool["function"], "parameters": parameters}}
