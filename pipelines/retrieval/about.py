"""What a version of an index says of itself, in about.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

ABOUT, FORMAT = "about.json", 5
DAMAGED = "the index is damaged; remove its folder, and index the documents again"


@dataclass(frozen=True, slots=True)
class About:
    """What a version holds: its model, the size of its vectors and how many there are.

    `kinds` are those of its vectors; `size` is of dense ones, 0 without any; `parts` counts the rows of each
    part, those of passages that were removed too; `postings` are the numbers of sparse vectors; `files` says
    how many bytes each file has, so that one that is missing or cut off is no index with other contents.
    """

    model: str
    size: int
    documents: int
    passages: int
    precision: str
    passage_size: int
    overlap: int
    kinds: tuple[str, ...]
    parts: tuple[int, ...]
    postings: int
    files: dict[str, int]
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """The rows of all parts."""
        return sum(self.parts)

    def check_files(self, folder: Path) -> None:
        """Raises ValueError where a file of the version is missing or has another length, OSError."""
        lengths = file_lengths(folder)
        for name, wanted in self.files.items():
            if lengths.get(name) != wanted:
                has = f"has {lengths[name]} bytes, not {wanted}" if name in lengths else "is missing"
                raise ValueError(f"{folder / name} {has}: {DAMAGED}")

    @classmethod
    def read(cls, folder: Path) -> About:
        """Raises ValueError for a file that is damaged, OtherFormat for another version of Braid, OSError."""
        try:
            written = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            if written["format"] != FORMAT:
                raise OtherFormat(
                    f"{folder}: the index has the format {written['format']}, and this Braid reads {FORMAT}: "
                    "index the documents again (`braid index`, or a new vector store)"
                )
            return cls(**{**written, "kinds": tuple(written["kinds"]), "parts": tuple(written["parts"])})
        except OtherFormat:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{folder / ABOUT}: {error}: {DAMAGED}") from None

    def write(self, folder: Path) -> None:
        """Raises OSError."""
        (folder / ABOUT).write_text(json.dumps(asdict(self)), encoding="utf-8")


def file_lengths(folder: Path) -> dict[str, int]:
    """The bytes of each file of a version beside its about.json.  Raises OSError."""
    return {file.name: file.stat().st_size for file in sorted(folder.iterdir()) if file.name != ABOUT}


class OtherFormat(ValueError):
    """An index was written by another version of Braid."""
