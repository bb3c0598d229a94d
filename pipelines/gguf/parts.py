"""Which files one model is: a GGUF file, or its parts NAME-00001-of-00003.gguf, which lie in one folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pipelines.gguf.errors import GgufError

GGUF = ".gguf"
PART = re.compile(r"(?P<name>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})", re.DOTALL)
"""The stem of a part's name, as llama-gguf-split writes it; the first part is number 1."""


class _Part(NamedTuple):
    name: str
    number: int
    total: int

    def siblings(self, file: Path, numbers: Iterable[int]) -> Iterator[Path]:
        """The names that parts of the same model have."""
        return (
            file.with_name(f"{self.name}-{number:05}-of-{self.total:05}{file.suffix}") for number in numbers
        )


def model_name(file: Path) -> str:
    """The name of the model in a GGUF file, whichever of its parts it is; of other files their own name.

    Bytes of the file's name that are no UTF-8 are in it as `\\xff`, since names are sent as texts.
    """
    if file.suffix.lower() != GGUF:
        return file.name
    part = _part(file)
    return os.fsencode(part.name if part else file.stem).decode("utf-8", "backslashreplace")


def present_parts(file: Path) -> list[Path]:
    """The file, or those parts of its model that are there, in order."""
    part = _part(file)
    if part is None:
        return [file]
    return [each for each in part.siblings(file, range(1, part.total + 1)) if each.exists()] or [file]


def is_first(file: Path) -> bool:
    """Whether no earlier part of the same model is there: one file stands for all."""
    part = _part(file)
    return part is None or not any(each.exists() for each in part.siblings(file, range(1, part.number)))


def all_parts(file: Path) -> list[Path]:
    """The file, or all parts of its model, in order.  Raises `GgufError` where one is missing."""
    part = _part(file)
    if part is None:
        return [file]
    parts = list(part.siblings(file, range(1, part.total + 1)))
    missing = [path.name for path in parts if not path.exists()]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise GgufError(f"is one of {part.total} parts, of which {', '.join(missing[:3])}{more} are missing")
    return parts


def _part(file: Path) -> _Part | None:
    found = PART.fullmatch(file.stem)
    if found is None or not 1 <= int(found["number"]) <= int(found["count"]):
        return None
    return _Part(found["name"], int(found["number"]), int(found["count"]))
