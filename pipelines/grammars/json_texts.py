"""Rewrites a grammar in Lark into that of its texts as the arguments of calls have them.

Models write these in JSON, where a text stands without its quotes here, or between two tags as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from pipelines.grammars.grammar_limits import BoundError, check_text
from pipelines.grammars.json_regexes import NotHeld, in_json, regex_in_json
from pipelines.grammars.lark_rules import ESCAPE, TOKEN, UnknownSyntax, lark_rules
from pipelines.grammars.lark_terminals import literal, pattern
from pipelines.grammars.leaf_formats import FormatError
from pipelines.grammars.shortest_words import Rules, is_recursive

STRING = r'"(?:\\.|[^"\\\n])*"'
RANGE_OR_TOKEN = re.compile(rf"(?P<range>{STRING}\s*\.\.\s*{STRING})|" + TOKEN.pattern, re.VERBOSE)
IMPORT = re.compile(
    r"%import\s+common\s*(?:\.(?P<one>\w+)(?:\s*->\s*(?P<alias>\w+))?|\((?P<many>[\w\s,]*)\))\s*"
)
IGNORE = re.compile(r"%ignore\s+(?P<what>.*)")
HEAD = re.compile(r"[?!]?([A-Za-z_][\w-]*)(?:\.\d+)?\s*:")
SYNTAXES = {"lark": "grammar in Lark", "regex": "regular expression"}
"""Name of a syntax → what it is, in words for a model."""
TEXTS = ("string", "range", "regex")
COPIED = ("space", "head", "alias", "open", "close", "or", "times")
NUMBER = r"([0-9]+)|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
COMMON = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[a-fA-F0-9]",
    "INT": "[0-9]+",
    "SIGNED_INT": "[+-]?[0-9]+",
    "NUMBER": NUMBER,
    "SIGNED_NUMBER": f"[+-]?({NUMBER})",
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[_A-Za-z][_A-Za-z0-9]*",
    "ESCAPED_STRING": r'"([^"\\]|\\.)*"',
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
}
"""Lark's common terminals, of which a grammar may import some."""


class Spelling(NamedTuple):
    """How texts and regular expressions of a grammar are written where their texts are written."""

    text: Callable[[str], str]
    regex: Callable[[str, str], str]


IN_JSON = Spelling(in_json, regex_in_json)
AS_IT_IS = Spelling(lambda text: text, lambda regex, flags: regex)

MAX_CHARS = 1 << 17
"""The most characters of a grammar that is rewritten."""


@lru_cache(64)
def text_grammar(syntax: str, definition: str) -> str:
    """The grammar in Lark of the escaped texts that a grammar in one of SYNTAXES holds.

    Raises as `lark_in_json`.
    """
    return _of_syntax(syntax, definition, lark_in_json)


@lru_cache(64)
def tagged_grammar(syntax: str, definition: str, end: str) -> str:
    """The grammar in Lark of the texts that a grammar in one of SYNTAXES holds, with what follows them.

    A text ends at the first `end` behind what the grammar holds, so that a grammar which holds that too lets
    the model go on.  Raises as `lark_in_json`.
    """
    return _of_syntax(syntax, definition, lambda lark: _until(lark, end))


def _of_syntax(syntax: str, definition: str, write: Callable[[str], str]) -> str:
    if len(definition) > MAX_CHARS:
        raise BoundError(f"the grammar has {len(definition)} characters; at most {MAX_CHARS} are allowed")
    if syntax == "lark":
        return write(definition)
    try:
        return write(f"start: {pattern(definition)}")
    except ValueError as error:
        raise error if isinstance(error, NotHeld | FormatError) else FormatError(str(error)) from error


def _until(lark: str, end: str) -> str:
    tokens, is_terminal = _read(lark)
    if not is_terminal:
        raise NotHeld("a grammar with %ignore, or whose rules lead back to themselves, between tags")
    head = f"start: body\nbody[lazy]: BODY\nBODY: {_terminal('start')} {literal(end)}\n"
    return "".join([head, *(_in_terminal(*token, AS_IT_IS) for token in tokens)])


def _read(lark: str) -> tuple[list[tuple[str, str]], bool]:
    """The parts of a grammar, and whether its rules can be one terminal.  Raises FormatError, NotHeld."""
    check_text(lark)
    rules: Rules = {}
    try:
        lark_rules(lark, rules, "")
    except UnknownSyntax as error:
        raise FormatError(f"the grammar is no Lark at {str(error)!r}") from error
    tokens = list(_tokens(lark))
    return tokens, not is_recursive(rules) and not any(IGNORE.match(text) for _, text in tokens)


def lark_in_json(lark: str) -> str:
    """The grammar of the escaped texts.

    Escapes that begin alike would end a terminal too early, so the rules become one terminal where they can.
    Raises FormatError for what is no grammar, and NotHeld for one that has no such form here.
    """
    tokens, is_terminal = _read(lark)
    if is_terminal:
        head = f"start: {_terminal('start')}\n"
        return "".join([head, *(_in_terminal(*token, IN_JSON) for token in tokens)])
    written = [_rewritten(*token, IN_JSON) for token in tokens]
    if any(_is_escaped(*token, new) for token, new in zip(tokens, written, strict=True)):
        raise NotHeld(
            "a grammar with %ignore, or whose rules lead back to themselves, over text with escapes"
        )
    return "".join(written)


def _tokens(lark: str) -> Iterator[tuple[str, str]]:
    """The kinds and texts of its parts."""
    at = 0
    while at < len(lark):
        token = RANGE_OR_TOKEN.match(lark, at)
        if token is None:
            raise FormatError(f"the grammar is no Lark at {lark[at : at + 40]!r}")
        if token.lastgroup == "json":
            raise NotHeld(token[0].strip())
        yield str(token.lastgroup), token[0]
        at = token.end()


def _is_escaped(kind: str, text: str, new: str) -> bool:
    """Whether a part has characters that JSON escapes."""
    return (kind in TEXTS and text != new) or (kind == "directive" and r"\\" in new)


def _in_terminal(kind: str, text: str, spelling: Spelling) -> str:
    """A part of a rule as a part of a terminal."""
    if kind == "head":
        name = HEAD.match(text)
        if name is None:
            raise NotHeld(f"options of a rule: {text.strip()}")
        return f"{_terminal(name[1])}:"
    if kind == "name" and not text.startswith("@"):
        return _terminal(text)
    if kind == "alias":
        return ""
    if kind in ("open", "close"):
        return {"[": "(", "]": ")?"}.get(text, text)
    if kind == "directive":
        return "\n".join(f"{_terminal(name)}: {regex}" for name, regex in _imported(text, spelling))
    return _rewritten(kind, text, spelling)


def _terminal(name: str) -> str:
    return f"{'T' if name.isupper() else 'R'}_{name.upper().replace('-', '_')}"


def _rewritten(kind: str, text: str, spelling: Spelling) -> str:
    if kind == "name" and not text.startswith("@"):
        return text
    if kind in COPIED:
        return text
    if kind == "string":
        return _string(text, spelling)
    if kind == "range":
        return _range(text, spelling)
    if kind == "regex":
        return _regex(text, spelling)
    if kind == "directive":
        return _directive(text, spelling)
    raise NotHeld(text.strip()[:40])


def _string(text: str, spelling: Spelling) -> str:
    body, _, flags = text[1:].rpartition('"')
    value = _value(body)
    escaped = spelling.text(value)
    if flags and escaped != value:
        raise NotHeld(f"{text}: it ignores case and has an escape")
    return literal(escaped) + flags


def _value(body: str) -> str:
    return ESCAPE.sub(_character, body)


def _character(escape: re.Match[str]) -> str:
    text = escape[0]
    if text[1] in "xXuU":
        return _char(text)
    return {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "v": "\v", "0": "\0"}.get(text[1], text[1])


def _char(escape: str) -> str:
    code = int(escape[2:], 16) if len(escape) > 2 else 0xD800
    if 0xD800 <= code < 0xE000:
        raise FormatError(f"{escape} is no character: \\xHH and \\uHHHH are, in hexadecimal digits")
    return chr(code)


def _range(text: str, spelling: Spelling) -> str:
    first, last = (_value(bound[1:-1]) for bound in re.findall(STRING, text))
    if len(first) != 1 or len(last) != 1:
        raise FormatError(f"{text} is no range of characters")
    return f"/{spelling.regex(f'[{_in_class(first)}-{_in_class(last)}]', '')}/"


def _in_class(char: str) -> str:
    return char if char.isalnum() else rf"\x{ord(char):02x}" if ord(char) < 256 else char


def _regex(text: str, spelling: Spelling) -> str:
    body, _, flags = text[1:].rpartition("/")
    if unknown := set(flags) - set("is"):
        raise NotHeld(f"the flag {sorted(unknown)[0]} of {text[:40]}")
    return f"/{spelling.regex(body, flags)}/{flags}"


def _directive(text: str, spelling: Spelling) -> str:
    if found := IGNORE.fullmatch(text):
        what = list(_tokens(found["what"]))
        if any(kind == "directive" for kind, _ in what):
            raise FormatError(f"{text[:60]} ignores no terminal")
        return "%ignore " + "".join(_rewritten(*token, spelling) for token in what)
    return "\n".join(f"{name}: {regex}" for name, regex in _imported(text, spelling))


def _imported(text: str, spelling: Spelling) -> list[tuple[str, str]]:
    """The names of terminals that a directive imports, and their expressions."""
    found = IMPORT.fullmatch(text)
    if found is None:
        raise NotHeld(f"the directive {text[:60]}")
    names = [found["one"]] if found["one"] else re.findall(r"\w+", found["many"])
    if unknown := [name for name in names if name not in COMMON]:
        raise NotHeld(f"the terminal common.{unknown[0]}")
    return [(found["alias"] or name, f"/{spelling.regex(COMMON[name], '')}/") for name in names]
