"""Unknown fields of a request: ignored, counted in the metrics, and reported where they are misspelt.

One `UnknownFields` collects those of a request, whichever thread and module finds them.  Keywords of tools'
schemas that calls are not held to are reported beside them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from contextvars import ContextVar
from difflib import get_close_matches
from functools import lru_cache

from graphs.errors import nearest
from pipelines.base.errors import RequestError
from pipelines.grammars import unenforced_keywords

log = logging.getLogger("braid.server")

MAX_NAME_CHARS = 64
MAX_NAMES = 16
"""Names of one request that are stored and compared; further ones are only counted."""
MAX_REPORTED = 8
MAX_LOGGED = 1024
"""Names that are logged, each once, in the life of a worker."""
CLOSE = 0.8
"""Similarity, 0 to 1, from which an unknown name is a misspelling of a known one."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.\-]")
_logged: set[str] = set()


class UnknownFields:
    """The unknown fields of one request: their number, and for the first ones the known name they misspell.

    With `strict` they are refused.  `unenforced` has the keywords that calls and replies are not held to,
    `left_out` what the reply says of parts of the request that are left out.
    """

    __slots__ = ("count", "found", "left_out", "strict", "unenforced")

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.count = 0
        self.found: dict[str, str | None] = {}
        self.left_out: dict[str, None] = {}
        self.unenforced = unenforced_keywords.collect()

    def add(self, name: str, known: Iterable[str]) -> None:
        if len(self.found) >= MAX_NAMES:
            self.count += 1
            return
        shown = _safe(name)
        if shown not in self.found:
            self.count += 1
            self.found[shown] = _misspelt(shown, tuple(known))
            _log(shown)

    @property
    def header(self) -> str:
        """The misspelt names as `name;nearest=known`, the keywords that are not held as `name;tool=its` or
        `name;field=response_format`, and what is left out, as `tools;type=web_search`.

        They are separated by commas; "" without any.
        """
        near = [f"{name};nearest={known}" for name, known in self.found.items() if known is not None]
        loose = [
            f"{_safe(name)};{kind}={_safe(of)}"
            for (kind, of), names in self.unenforced.items()
            for name in sorted(names)
        ]
        return ", ".join(near[:MAX_REPORTED] + loose[:MAX_REPORTED] + [*self.left_out][:MAX_REPORTED])


_current: ContextVar[UnknownFields | None] = ContextVar("unknown_fields", default=None)
"""The unknown fields of the request that this task, or a thread that it started, serves."""


def collect_unknown(strict: bool) -> None:
    """Collect those of the request that this task serves from now on, or refuse them if `strict`."""
    _current.set(UnknownFields(strict))


def unknown_fields() -> UnknownFields | None:
    """What was collected of the request that this task serves."""
    return _current.get()


def ignore_unknown(name: str, known: Iterable[str], where: str = "") -> None:
    """Ignore an unknown field of the current request; `where` is the path of its object.

    Raises RequestError with the nearest known field where unknown fields are refused.
    """
    current = _current.get()
    if current is None:
        return
    if current.strict:
        raise unknown_field(name, known, where)
    current.add(name, known)


def note_left_out(field: str, type: str) -> None:
    """A part of the current request, of this type, is left out: it is counted, and the reply says so."""
    current = _current.get()
    if current is not None:
        current.count += 1
        if len(current.left_out) < MAX_NAMES:
            current.left_out[f"{field};type={_safe(type)}"] = None


def unknown_field(name: str, known: Iterable[str], where: str = "") -> RequestError:
    """The error for a field that is unknown, with the nearest known one."""
    near = nearest(name[:MAX_NAME_CHARS], known)
    hint = f"; did you mean `{near}`?" if near else ""
    field = where + name[:MAX_NAME_CHARS]
    return RequestError(f"unknown field `{field}`{hint}", field=field, word="unknown_parameter")


def _safe(name: str) -> str:
    """A name for headers and logs: short, with a question mark for each character that may not be there."""
    return _UNSAFE.sub("?", name[:MAX_NAME_CHARS])


@lru_cache(maxsize=1024)
def _misspelt(name: str, known: tuple[str, ...]) -> str | None:
    return next(iter(get_close_matches(name, known, 1, CLOSE)), None)


def _log(name: str) -> None:
    if name not in _logged and len(_logged) < MAX_LOGGED:
        _logged.add(name)
        log.debug("the unknown request field %s is ignored", name)
