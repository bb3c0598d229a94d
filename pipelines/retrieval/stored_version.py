"""A version of an index, opened: its vectors, postings and passages."""

from __future__ import annotations

from pathlib import Path

from pipelines.retrieval.about import About
from pipelines.retrieval.dense_vectors import DenseVectors
from pipelines.retrieval.passages import Passages
from pipelines.retrieval.postings import Postings


class StoredVersion:
    """What a version holds: `vectors` are its dense ones and `postings` its sparse ones, if it has them."""

    def __init__(self, folder: Path, about: About) -> None:
        """Raises OSError, sqlite3.Error, and ValueError where it is damaged."""
        self.folder, self.about = folder, about
        counts, kinds = about.parts, about.kinds
        self.vectors = DenseVectors(folder, counts, about.size) if "dense" in kinds else None
        self.postings = Postings(folder, counts, about.postings) if "sparse" in kinds else None
        self.passages = Passages(folder, counts)

    def close(self) -> None:
        self.passages.close()
