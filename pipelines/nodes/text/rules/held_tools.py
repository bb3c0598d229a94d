"""The grammar of calls of declared tools, each held to as much of its schema as has a grammar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipelines.base.errors import NoTextFits, RequestError
from pipelines.grammars.formats import GrammarWriter
from pipelines.grammars.grammar_limits import BoundError
from pipelines.grammars.normal_schema import loose_schema
from pipelines.grammars.schema_keywords import SchemaError
from pipelines.grammars.unenforced_keywords import note
from pipelines.nodes.text.parsers.tools import forms

Tool = dict[str, Any]
WHERE = "tools"


def grammar_of_calls(
    tools: Sequence[Tool],
    form: Callable[[Sequence[Tool]], forms.Format],
    write: GrammarWriter,
    must_call: bool = False,
) -> str:
    """The grammar of the format that `form` makes of the tools.

    Of a tool that is not `strict` and whose schema has no grammar, the part that has one is held, and of
    others the names of the parameters; what is not held is noted.  Raises RequestError for one that is
    `strict`, and where one of them must be called and no arguments fit any.
    """
    try:
        return write(form(tools), WHERE)
    except RequestError as error:
        if must_call and isinstance(error, NoTextFits):
            raise
        return write(form([_held(tool, write) for tool in tools]), WHERE)


def _held(tool: Tool, write: GrammarWriter) -> Tool:
    """The tool with the most of its schema that has a grammar."""
    name = tool["function"]["name"]
    for looser, left_out in _ever_looser(tool):
        if _has_grammar(looser, write):
            if left_out:
                note(name, left_out)
            return looser
    return tool


def _ever_looser(tool: Tool) -> Iterator[tuple[Tool, set[str]]]:
    """The tool, and with less of its schema; with the keywords that are left out."""
    yield tool, set()
    parameters = tool["function"].get("parameters")
    if tool["function"].get("strict") or not isinstance(parameters, dict):
        return
    try:
        loose, left_out = loose_schema(parameters)
        yield with_parameters(tool, loose), left_out
    except (BoundError, SchemaError):
        pass
    properties = parameters.get("properties")
    names: dict[str, Any] = {name: {} for name in properties} if isinstance(properties, dict) else {}
    yield with_parameters(tool, {"properties": names} if names else {}), {"parameters"}


def _has_grammar(tool: Tool, write: GrammarWriter) -> bool:
    try:
        write(forms.arguments(tool["function"]), WHERE)
    except RequestError:
        return False
    return True


def with_parameters(tool: Tool, parameters: dict[str, Any]) -> Tool:
    """The tool with other parameters."""
    return {**tool, "function": {**tool["function"], "parameters": parameters}}
