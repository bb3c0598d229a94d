"""A part of a new version while it is written, and the version before, from which it may copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from pipelines.retrieval.about import About
from pipelines.retrieval.cutting import Passage
from pipelines.retrieval.dense_vectors import Rows, VectorWriter, unit
from pipelines.retrieval.index_parts import Described, PartSize
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.passages import PassageWriter, StoredDocument
from pipelines.retrieval.postings import PostingsWriter
from pipelines.retrieval.stored_version import StoredVersion
from pipelines.values.node_values import SparseVectors, Vectors


class VersionBefore(StoredVersion):
    """The version that a new one follows, opened."""

    def __init__(self, folder: Path, about: About) -> None:
        """Raises OSError, sqlite3.Error, and ValueError where it is damaged."""
        about.check_files(folder)
        super().__init__(folder, about)

    def documents(self, names: Iterable[str] | None) -> dict[str, tuple[int, StoredDocument]]:
        """The documents of these names that are there, or all: the part of each, and itself."""
        wanted = None if names is None else [*names]
        return {
            document.name: (number, document)
            for number, part in enumerate(self.passages.parts)
            for document in part.documents(wanted)
        }

    def size_of(self, number: int, removed: Sequence[StoredDocument], described: Described) -> PartSize:
        """What a part has, when these documents are removed too, and these described again."""
        part = self.passages.parts[number]
        gone = part.without(removed)
        num_described = len(part.described.keys() | described.keys())
        return PartSize(part.rows, int(gone[:, 2].sum()), part.num_documents - len(gone), num_described)

    def check_part(self, number: int) -> None:
        """Read the files of a part before it is copied.  Raises ValueError where one is damaged, OSError."""
        self.about.check_sums(self.folder, f"{number}-")


class PartWriter:
    """Writes one part.  `num_rows` have vectors so far; the passages may be ahead of them.

    `size` is that of a dense vector, 0 where none is known.
    """

    def __init__(self, folder: Path, part: int, settings: IndexSettings, size: int) -> None:
        """Raises sqlite3.Error."""
        self._model, self.size = settings.model, size
        self.passages = PassageWriter(folder, part)
        self.vectors = VectorWriter(folder, settings.precision, part)
        self.postings = PostingsWriter(folder, part)
        self.num_rows = 0

    def append(self, vectors: Mapping[str, Vectors]) -> None:
        """Add vectors of each kind.  Raises OSError, and ValueError for those of another model."""
        dense, sparse = vectors.get("dense"), vectors.get("sparse")
        if isinstance(dense, np.ndarray):
            if self.size not in (0, dense.shape[1]):
                raise ValueError(
                    f"{self._model} gives {dense.shape[1]} numbers for a text, and the index holds "
                    f"{self.size}: it was made with another model; remove it, and write it again"
                )
            self.size = dense.shape[1]
            self.vectors.append(unit(dense))
        if isinstance(sparse, SparseVectors):
            self.postings.append(self.num_rows, sparse)
        self.num_rows += len(next(iter(vectors.values())))

    def copy(self, before: VersionBefore, number: int, documents: Iterable[StoredDocument]) -> None:
        """Add documents of a part of the version before with their vectors; they are in ascending order."""
        part = before.passages.parts[number]
        spans = []
        for document in documents:
            passages: Sequence[Passage] = part.passages_of(document)
            self.passages.add(document.name, document.digest, document.attributes, passages)
            spans.append(np.arange(document.first, document.first + document.passages))
        rows: Rows = np.concatenate([np.empty(0, np.int64), *spans])
        if before.vectors is not None:
            self.vectors.copy(before.vectors.parts[number], rows)
        if before.postings is not None:
            self.postings.copy(self.num_rows, before.postings.parts[number], rows)
        self.num_rows += len(rows)

    def close(self) -> None:
        """Write all.  Raises OSError and sqlite3.Error."""
        self.passages.close()
        self.vectors.close()
        self.postings.write()

    def abandon(self) -> None:
        """Close the files of a part that is not published."""
        self.passages.abandon()
        self.vectors.close()
