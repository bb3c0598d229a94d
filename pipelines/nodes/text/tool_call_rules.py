"""What a reply may be where tools must be called, or may be: as a format for the grammar, and who reads it.

Knows nothing of tokens, streams or HTTP.
"""

from __future__ import annotations

from typing import Any

from pipelines.grammars.formats import format_of
from pipelines.nodes.text.parsers import TOOLS, ToolParser
from pipelines.nodes.text.parsers.tools import forced, forms
from pipelines.nodes.text.parsers.tools.calls import CallFinder
from pipelines.tasks import GenerationInput

REQUIRED = "required"


def must_call(request: GenerationInput) -> bool:
    return bool(request.tools and request.parse_tools and request.tool_choice is not None)


def names_tool(request: GenerationInput) -> bool:
    """Whether the request says which tool must be called."""
    return must_call(request) and request.tool_choice != REQUIRED


def looks_for_calls(family: str | None, request: GenerationInput) -> bool:
    """Whether `parser` gives one; makes none."""
    return must_call(request) or bool(family and request.tools and request.parse_tools)


def parser(family: str | None, request: GenerationInput) -> ToolParser | None:
    """Who reads the calls of one choice; None where nobody looks for calls."""
    if must_call(request) and family not in forms.FORMS:
        named = names_tool(request) and request.tool_choice
        return forced.ArgumentsOf(named) if named else CallFinder(forced.PLAIN)
    if family is None or not looks_for_calls(family, request):
        return None
    return TOOLS[family](request.tools)


def reply_format(family: str | None, request: GenerationInput) -> forms.Format | None:
    """What the grammar must hold the reply to because of its tools; None where that is nothing.

    Where the model may choose, calls are held to the declared parameters if a tool is `strict`, or if the
    reply is constrained anyway: then it is what the constraint says, or calls.
    """
    form = forms.FORMS.get(family or "")
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
