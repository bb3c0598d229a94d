"""Reads the format of a custom tool: a grammar that holds the text of its calls."""

from __future__ import annotations

from typing import Any

from pipelines.base.errors import RequestError
from pipelines.grammars.grammar_limits import BoundError
from pipelines.grammars.json_regexes import NotHeld
from pipelines.grammars.json_texts import SYNTAXES, text_grammar
from pipelines.grammars.leaf_formats import FormatError
from pipelines.grammars.unenforced_keywords import note

KEYS = ("syntax", "definition")


def read_format(format: Any, tool: str, where: str) -> tuple[dict[str, Any] | None, str]:
    """What holds the text of a custom tool's call, and what its description says of it."""
    if format is None or (isinstance(format, dict) and format.get("type") == "text"):
        return None, ""
    syntax, definition = (format.get(key) if isinstance(format, dict) else None for key in KEYS)
    if not isinstance(syntax, str) or syntax not in SYNTAXES or not isinstance(definition, str):
        raise RequestError(
            f"`{where}` must be text, or a grammar with its syntax, {' or '.join(SYNTAXES)}, and definition",
            field=where,
        )
    says = f" It must match this {SYNTAXES[syntax]}:\n{definition}"
    try:
        text_grammar(syntax, definition)
    except NotHeld:
        note(tool, ["format"])
        return None, says
    except (FormatError, BoundError) as error:
        raise RequestError(f"`{where}.definition`: {error}", field=f"{where}.definition") from error
    return {"type": "json_text", "syntax": syntax, "definition": definition}, says
