"""Writes the grammar text of a format and lets llguidance check it.

Runs in workers, where requests arrive; needs only the names of the special tokens of a tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipelines.base.bounded_processes import BoundedProcesses, OutOfBounds
from pipelines.base.cancellation import need_long_work
from pipelines.base.errors import NoTextFits, RequestError
from pipelines.grammars.compiler import faults_of
from pipelines.grammars.formats import Format
from pipelines.grammars.grammar_cost import NoWord, check_cost
from pipelines.grammars.grammar_limits import BoundError
from pipelines.grammars.leaf_formats import FormatError
from pipelines.grammars.to_lark import lark_grammar_of

MAX_GRAMMAR_BYTES = 1 << 20
MAX_MESSAGE = 500
TRIAL_S = 3.0
"""Processor time of a trial: compiling, and sampling three texts."""
TRIALS = BoundedProcesses("pipelines.grammars.grammar_trial", 1, 1536 << 20, "try grammars")


def grammar_of_format(
    format: Format, field: str, specials: Mapping[str, int] | None = None, tokenizer: Path | None = None
) -> str:
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
    check(grammar, field, tokenizer)
    return grammar


def check(grammar: str, field: str, tokenizer: Path | None = None) -> None:
    """Raise RequestError unless the compiler accepts the whole grammar, including every part of a schema.

    What is not cheap on its face is tried first, in a process with bounded time and memory, on the tokens of
    `tokenizer`.
    """
    try:
        fault = faults_of(grammar) if check_cost(grammar) else _tried(grammar, tokenizer)
    except NoWord as error:
        raise NoTextFits(readable(str(error)), field) from error
    except BoundError as error:
        raise RequestError(readable(str(error)), field) from error
    if fault:
        raise RequestError(readable(fault), field)


def _tried(grammar: str, tokenizer: Path | None) -> str:
    need_long_work()
    job = {"grammar": grammar, "tokenizer": None if tokenizer is None else str(tokenizer)}
    try:
        found: dict[str, str] = TRIALS.outcome(job, TRIAL_S).value
    except OutOfBounds as error:
        found = {"cost": str(error)}
    if "cost" in found:
        return f"the grammar costs too much: {found['cost']}"
    return found.get("fault", "")


def readable(message: str) -> str:
    """The message as one paragraph of limited length."""
    paragraph = " ".join(message.split())
    return paragraph if len(paragraph) <= MAX_MESSAGE else paragraph[: MAX_MESSAGE - 1] + "…"
