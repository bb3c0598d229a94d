"""What a version of an index says of itself, in about.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pipelines.retrieval.file_sums import DAMAGED, FileSum, check_sum

ABOUT, FORMAT = "about.json", 6


@dataclass(frozen=True, slots=True)
class About:
    """What a version holds: its model, the size of its vectors and how many there are.

    `kinds` are those of its vectors; `size` is of dense ones, 0 without any; `parts` counts the rows of each
    part, those of passages that were removed too; `postings` are the numbers of sparse vectors; `files` has
    the sum of each file, so that one that is missing, cut off or damaged is no index with other contents.
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
    files: dict[str, FileSum]
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """The rows of all parts."""
        return sum(self.parts)

    def check_files(self, folder: Path) -> None:
        """Raises ValueError where a file of the version is missing or has another length, OSError."""
        lengths = {path.name: path.stat().st_size for path in version_files(folder)}
        for name, wanted in self.files.items():
            if lengths.get(name) != wanted.size:
                has = f"has {lengths[name]} bytes, not {wanted.size}" if name in lengths else "is missing"
                raise ValueError(f"{folder / name} {has}: {DAMAGED}")

    def check_sums(self, folder: Path, begin: str = "") -> None:
        """Read the files whose names begin so.  Raises ValueError where one is damaged, OSError."""
        for name, wanted in self.files.items():
            if name.startswith(begin):
                check_sum(folder / name, wanted)

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
            files = {name: FileSum(*numbers) for name, numbers in written["files"].items()}
            kinds, parts = tuple(written["kinds"]), tuple(written["parts"])
            return cls(**{**written, "kinds": kinds, "parts": parts, "files": files})
        except OtherFormat:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{folder / ABOUT}: {error}: {DAMAGED}") from None

    def write(self, folder: Path) -> None:
        """Raises OSError."""
        (folder / ABOUT).write_text(json.dumps(asdict(self)), encoding="utf-8")


def version_files(folder: Path) -> list[Path]:
    """The files of a version beside its about.json.  Raises OSError."""
    return [file for file in sorted(folder.iterdir()) if file.name != ABOUT]


class OtherFormat(ValueError):
    """An index was written by another version of Braid."""
