"""Finds what the references of a JSON Schema lead to, in the forms of drafts 4 to 2020-12."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urljoin

ID_KEYWORDS = ("$id", "id")
ANCHOR_KEYWORDS = ("$anchor", "$dynamicAnchor")


class References:
    """The places of one schema that references can name: by pointer, by anchor, by id.

    An id below the root may be no more than a label that its author gave, so what is not found below the
    nearest id is looked for from the root.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self._named: dict[str, Any] = {"": root}
        self._bases: dict[int, str] = {}
        waiting: list[tuple[Any, str]] = [(root, "")]
        while waiting:
            value, base = waiting.pop()
            if isinstance(value, dict):
                base = self._note(value, base)
                waiting.extend((inner, base) for inner in value.values())
            elif isinstance(value, list):
                waiting.extend((inner, base) for inner in value)

    def _note(self, value: dict[str, Any], base: str) -> str:
        """Note the names of an object, and return the id that references in it are relative to."""
        ids = [text for key in ID_KEYWORDS if isinstance(text := value.get(key), str)]
        for text in ids:
            if text.startswith("#"):  # draft 4 writes anchors so
                self._named.setdefault(base + text, value)
            else:
                base = _joined(base, text.rstrip("#"))
                self._named.setdefault(base, value)
        for key in ANCHOR_KEYWORDS:
            if isinstance(value.get(key), str):
                self._named.setdefault(f"{base}#{value[key]}", value)
        self._bases[id(value)] = base
        return base

    def target(self, reference: str, source: dict[str, Any]) -> Any:
        """What a reference in the object `source` leads to; None where that is nothing in this schema."""
        path, _, fragment = reference.partition("#")
        base = self._bases.get(id(source), "")
        for url in (_joined(base, path), path):
            found = self._in(url, fragment)
            if found is not None:
                return found
        return None

    def _in(self, url: str, fragment: str) -> Any:
        if fragment and not fragment.startswith("/"):
            return self._named.get(f"{url}#{fragment}", self._named.get(f"{url}#{unquote(fragment)}"))
        found = self._named.get(url)
        for key in fragment.split("/")[1:]:
            if found is None:
                break
            found = _step(found, key)
        return found


def _joined(base: str, path: str) -> str:
    try:
        return urljoin(base, path) if path else base
    except ValueError:
        return path


def _step(value: Any, key: str) -> Any:
    """One step of a pointer, whose key may be percent-encoded or not."""
    keys = [each.replace("~1", "/").replace("~0", "~") for each in (key, unquote(key))]
    if isinstance(value, dict):
        return next((value[each] for each in keys if each in value), None)
    if isinstance(value, list) and keys[1].isdecimal() and len(key) <= 6:
        return next(iter(value[int(keys[1]) :][:1]), None)
    return None
