"""A format → a grammar that llguidance has accepted, or a RequestError in its words.

Runs where requests enter; knows nothing of tokenizers beyond the names of their special tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

from llguidance import LLMatcher, LLParserLimits

from pipelines.errors import RequestError
from pipelines.grammars.formats import Format
from pipelines.grammars.grammar_limits import BoundError
from pipelines.grammars.leaf_formats import FormatError
from pipelines.grammars.to_lark import lower

MAX_GRAMMAR_BYTES = 1 << 20
MAX_MESSAGE = 500
NEEDS_TOKENIZER = "no tokenizer"
"""How the compiler begins its warning that special tokens are looked at later."""


def limits() -> LLParserLimits:
    """What one grammar may cost: about 20 ms to compile, 15 ms a step, 100 MB of lexer states."""
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
        grammar = lower(format, specials or {})
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
    """Let the compiler look.  What it would leave out of a schema is an error, too."""
    failed, said = LLMatcher.validate_grammar_with_warnings(grammar, limits=limits())
    faults = said if failed else [text for text in said if not text.startswith(NEEDS_TOKENIZER)]
    if faults:
        raise RequestError(readable("Grammar error: " + "; ".join(faults)), field)


def readable(message: str) -> str:
    """One paragraph of bounded length."""
    paragraph = " ".join(message.split())
    return paragraph if len(paragraph) <= MAX_MESSAGE else paragraph[: MAX_MESSAGE - 1] + "…"
