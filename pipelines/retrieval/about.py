"""What a version of an index says of itself, in about.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

ABOUT, FORMAT = "about.json", 4


@dataclass(frozen=True, slots=True)
class About:
    """What a version holds: its model, the size of its vectors and how many there are.

    `kinds` are those of its vectors; `size` is of dense ones, 0 without any; `parts` counts the rows of each
    part, those of passages that were removed too; `postings` are the numbers of sparse vectors.
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
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """The rows of all parts."""
        return sum(self.parts)

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
            raise ValueError(
                f"{folder / ABOUT}: {error}: the index is damaged; remove its folder, and index the "
                "documents again"
            ) from None

    def write(self, folder: Path) -> None:
        """Raises OSError."""
        (folder / ABOUT).write_text(json.dumps(asdict(self)), encoding="utf-8")


class OtherFormat(ValueError):
    """An index was written by another version of Braid."""
