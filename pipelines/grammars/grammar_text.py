"""Writes the grammar text of a format and lets llguidance check it.

Runs in workers, where requests arrive; needs only the names of the special tokens of a tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping

from llguidance import LLMatcher, LLParserLimits

from pipelines.errors import RequestError
from pipelines.grammars.formats import Format
from pipelines.grammars.grammar_limits import BoundError
from pipelines.grammars.leaf_formats import FormatError
from pipelines.grammars.to_lark import lark_grammar_of

MAX_GRAMMAR_BYTES = 1 << 20
MAX_MESSAGE = 500
NEEDS_TOKENIZER = "no tokenizer"
"""Start of the compiler's warning that special tokens are checked later."""


def limits() -> LLParserLimits:
    """Resource limits of one grammar: about 20 ms to compile, 15 ms a step, 100 MB of lexer states."""
    return LLParserLimits(
        max_grammar_size=200_000,
        initial_lexer_fuel=2_000_000,
        step_lexer_fuel=500_000,
        max_lexer_states=50_000,
        verbose_errors=False,
    )


def grammar_of_format(format: Format, field: str, specials: Mapping[str, int] | None = None) -> str:
    """The checked grammar of a format.  Raises RequestError naming `field`."""
    try:
        grammar = lark_grammar_of(format, specials or {})
        size = len(grammar.encode())
    except (FormatError, BoundError) as error:
        raise RequestError(readable(str(error)), field) from error
    except RecursionError as error:
        raise RequestError("the format is nested too deeply", field) from error
    except UnicodeEncodeError as error:
        raise RequestError("text with lone surrogates cannot be written", field) from error
    if size > MAX_GRAMMAR_BYTES:
        raise RequestError(f"the grammar takes {size} bytes; at most {MAX_GRAMMAR_BYTES} are allowed", field)
    check(grammar, field)
    return grammar


def check(grammar: str, field: str) -> None:
    """Raise RequestError unless the compiler accepts the whole grammar, including every part of a schema."""
    failed, messages = LLMatcher.validate_grammar_with_warnings(grammar, limits=limits())
    faults = messages if failed else [text for text in messages if not text.startswith(NEEDS_TOKENIZER)]
    if faults:
        raise RequestError(readable("Grammar error: " + "; ".join(faults)), field)


def readable(message: str) -> str:
    """The message as one paragraph of limited length."""
    paragraph = " ".join(message.split())
    return paragraph if len(paragraph) <= MAX_MESSAGE else paragraph[: MAX_MESSAGE - 1] + "…"
