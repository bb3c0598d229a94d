"""Writes JSON of a model so that every client reads it: the one writer of arguments, for all formats.

JSON passes unchanged, as it arrives.  What is nearly JSON is mended: single quotes, bare keys, words of
Python, line breaks in strings, unknown escapes, commas too many or too few, missing brackets.  Half of a
surrogate pair becomes U+FFFD, a number beyond all floats the largest of them, and a word that is no number
a string, so that the text is valid UTF-8 and one value wherever it ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from pipelines.nodes.text.parsers.tools.json_values import DEEPEST, as_json, read_json, whole_characters

CLOSES = {"{": "}", "[": "]"}
WORDS = {"True": "true", "False": "false", "None": "null"}
LITERALS = ("true", "false", "null", *WORDS)
PLAIN = re.compile(r"[^\"'\\\x00-\x1f\ud800-\udfff]+")
IN_WORDS = frozenset("+-._$")
HEX = frozenset("0123456789abcdefABCDEF")
NUMBER = re.compile(r"(-?)(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
LARGEST = "1.7976931348623157e308"
"""The largest number: readers make infinity of larger ones, or refuse their digits."""
LOST = "\\ufffd"
"""Stands for half of a surrogate pair."""


class ModelJson:
    """One value in pieces.  A comma and a key are written when the value after them begins."""

    def __init__(self) -> None:
        self.over = False
        """Whether the value is complete, or what came cannot be a part of it."""

        self._state: Callable[[str], int] = self._value  # takes a character; 0 where another state is to
        self._open: list[str] = []  # the brackets around the next character
        self._written: list[str] = []
        self._quote = ""  # of the string that is open
        self._escape = ""  # the beginning of an escape
        self._high = ""  # the escape of a pair's first half
        self._word: list[str] = []  # a number, a literal or a bare key
        self._is_key = False
        self._waits = False  # whether what came last is written later, if at all
        self._held: list[str] = []  # what is written then
        self._raw: list[str] = []  # the same, as it came

    @property
    def quoted(self) -> bool:
        """Whether the next character is in a string."""
        return bool(self._quote)

    def push(self, text: str) -> str | None:
        """The text after the value, or from where it cannot be read; None while it continues."""
        at = 0
        while at < len(text) and not self.over:
            taken = self._plain(text, at) or self._state(text[at])
            if self._waits:
                self._raw.append(text[at : at + taken])
            at += taken
        return self.unread() + text[at:] if self.over else None

    def unread(self) -> str:
        """What came and was not written: a comma or a key without a value."""
        raw, self._raw = self._raw, []
        return "".join(raw)

    def take(self) -> str:
        """What was written since the last call of this function."""
        written = "".join(self._written)
        self._written.clear()
        return written

    def settle(self) -> None:
        """What came last is whole: no more characters of a number follow."""
        if self._word:
            self._in_word("")

    def finish(self) -> None:
        """The text ended: write what is missing of the value."""
        if not self.over:
            self._end_string()
            self._end_word()
            while self._open:
                self._written.append(CLOSES[self._open.pop()])
            self.over = True

    def _end_string(self) -> None:
        if self._quote and not self._is_key:
            self._written.append('"')
        self._quote = self._escape = self._high = ""  # half an escape is nothing

    def _end_word(self) -> None:
        """A number may be cut; another word is written only if it is whole."""
        word = "".join(self._word)
        if word and not self._is_key:
            is_cut = any(each.startswith(word) and each != word for each in LITERALS)
            if not is_cut:
                self._give()
                self._written.append(_written(word))

    def _give(self) -> None:
        """A value begins: what waited for it is written."""
        self._written += self._held
        self._held, self._raw, self._waits = [], [], False

    def _hold(self, text: str) -> None:
        self._waits = True
        self._held.append(text)

    def _put(self, text: str) -> None:
        (self._held if self._waits else self._written).append(text)

    def _fail(self) -> int:
        self._word = []
        self.finish()
        return 0

    def _value(self, char: str) -> int:
        """Reads a character where a value may begin."""
        if char.isspace():
            self._put(_space(char))
        elif char in "\"'":
            self._give()
            self._start_string(char)
        elif char in CLOSES and len(self._open) < DEEPEST:
            self._give()
            self._written.append(char)
            self._open.append(char)
            self._state = self._key if char == "{" else self._value
        elif char in "]}":
            return self._close(char)
        elif _in_word(char):
            self._start_word()
            return 0
        elif char != "," or self._open[-1:] != ["["]:
            return self._fail()
        return 1

    def _key(self, char: str) -> int:
        """Reads a character where a key may begin."""
        if char.isspace():
            self._put(_space(char))
        elif char in "\"'":
            self._waits = self._is_key = True
            self._start_string(char)
        elif char == "}":
            return self._close(char)
        elif _in_word(char):
            self._is_key = True
            self._start_word()
            return 0
        elif char != ",":
            return self._fail()
        return 1

    def _colon(self, char: str) -> int:
        """After a key."""
        if char in "]}":
            return self._close(char)
        if char != ":" and not char.isspace():
            return self._fail()
        self._put(_space(char) if char.isspace() else char)
        if char == ":":
            self._state, self._is_key = self._value, False
        return 1

    def _after(self, char: str) -> int:
        """After a value.  A comma may be missing."""
        begins = char in "\"'" or (self._open[-1] == "[" and (char in CLOSES or _in_word(char)))
        if char.isspace():
            self._put(_space(char))
        elif char == "," or begins:
            self._hold(",")
            self._state = self._key if self._open[-1] == "{" else self._value
            return int(not begins)
        elif char in "]}":
            return self._close(char)
        else:
            return self._fail()
        return 1

    def _close(self, char: str) -> int:
        """A closing bracket, also of those inside it that were left open; what waited is not written."""
        if char not in [CLOSES[bracket] for bracket in self._open]:
            return self._fail()
        self._held, self._raw, self._waits, self._is_key = [], [], False, False
        closed = ""
        while closed != char:
            closed = CLOSES[self._open.pop()]
            self._written.append(closed)
        self._ended()
        return 1

    def _ended(self) -> None:
        """A value ended."""
        self._state, self.over = self._after, not self._open

    def _start_string(self, quote: str) -> None:
        self._quote, self._state = quote, self._in_string
        self._put('"')

    def _plain(self, text: str, at: int) -> int:
        """The number of characters of a string that pass unchanged."""
        if not self._quote or self._escape or self._high or (run := PLAIN.match(text, at)) is None:
            return 0
        self._put(run[0])
        return len(run[0])

    def _in_string(self, char: str) -> int:
        if self._escape:
            return self._in_escape(char)
        if char == "\\":
            self._escape = char
            return 1
        self._flush_escape()
        if char != self._quote:
            self._put(whole_characters(json.dumps(char, ensure_ascii=False)[1:-1]))
            return 1
        self._put('"')
        self._quote = ""
        if self._is_key:
            self._state = self._colon
        else:
            self._ended()
        return 1

    def _in_escape(self, char: str) -> int:
        escape = self._escape + char
        if len(escape) > 2 and char not in HEX:
            self._flush_escape()
            return 0
        self._escape = escape
        if escape[1] != "u" or len(escape) == 6:
            self._escape = ""
            self._escaped(escape)
        return 1

    def _escaped(self, escape: str) -> None:
        """A whole escape: an unknown one is a backslash and a character."""
        code = int(escape[2:], 16) if len(escape) == 6 else 0
        if 0xDC00 <= code <= 0xDFFF:
            self._put(self._high + escape if self._high else LOST)
            self._high = ""
            return
        self._flush_escape()
        if 0xD800 <= code <= 0xDBFF:
            self._high = escape
        elif code or escape[1] in '"\\/bfnrtu':
            self._put(escape)
        else:
            self._put("'" if escape[1] == "'" else as_json(escape)[1:-1])

    def _flush_escape(self) -> None:
        """What came of an escape or a pair is all that comes."""
        if self._high:
            self._put(LOST)
        if self._escape:
            self._put("\\" + self._escape)
        self._high = self._escape = ""

    def _start_word(self) -> None:
        self._word, self._waits, self._state = [], True, self._in_word

    def _in_word(self, char: str) -> int:
        if _in_word(char):
            self._word.append(char)
            return 1
        word, self._word = "".join(self._word), []
        if self._is_key:
            self._held.append(as_json(word))
            self._state = self._colon
        else:
            self._give()
            self._written.append(_written(word))
            self._ended()
        return 0


def _space(char: str) -> str:
    """White space of JSON, which knows four characters of it."""
    return char if char in " \t\n\r" else " "


def _in_word(char: str) -> bool:
    return char.isalnum() or char in IN_WORDS


def _written(word: str) -> str:
    """A number or a literal as JSON; anything else is a string."""
    try:
        read_json(word)
    except ValueError:
        number = NUMBER.fullmatch(word)
        return f"{number[1]}{LARGEST}" if number else WORDS.get(word) or as_json(word)
    return word
