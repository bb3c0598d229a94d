"""Tool calls in a reply: one rule for the parser that finds them and for the format that restricts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.grammars.formats import format_of
from pipelines.nodes.text.parsers import TOOLS, ToolParser
from pipelines.nodes.text.parsers.tools import forced, forms
from pipelines.nodes.text.parsers.tools.calls import CallFinder
from pipelines.tasks import GenerationInput

REQUIRED = "required"


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
        """What the reply must be because of its tools; None where that is nothing.

        Where the model may choose, calls are restricted to the declared parameters if a tool is `strict` or
        the reply is constrained anyway: then it is what the constraint allows, or calls.
        """
        form = forms.FORMS.get(self.family or "")
        if must_call(request):
            return _forced(form, request)
        if form is None or not request.tools or not request.parse_tools:
            return None
        if request.constraint is not None:
            calls = forms.calls(form, request.tools, parallel=request.parallel_calls)
            return {"type": "or", "elements": [format_of(request.constraint), calls]}
        if form.trigger and any(_strict(tool) for tool in request.tools):
            tools = [tool if _strict(tool) else _loose(tool) for tool in request.tools]
            return forms.free_text(form, tools, parallel=request.parallel_calls)
        return None


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


def _strict(tool: dict[str, Any]) -> bool:
    return bool(tool["function"].get("strict"))


def _loose(tool: dict[str, Any]) -> dict[str, Any]:
    """The tool with any arguments."""
    return {**tool, "function": {**tool["function"], "parameters": {}}}
