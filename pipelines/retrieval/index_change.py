"""A new version of an index while it is made from the one before: parts are shared, merged, and added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pipelines.retrieval.about import About, OtherFormat, file_lengths
from pipelines.retrieval.cutting import Cutting, Passage
from pipelines.retrieval.dense_vectors import DenseVectors
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_parts import (
    PartGroup,
    is_full,
    plan_parts,
    share_part,
    write_removed,
)
from pipelines.retrieval.making import Making
from pipelines.retrieval.near_graph import write_graph
from pipelines.retrieval.part_writer import PartWriter, VersionBefore
from pipelines.retrieval.passages import StoredDocument


class IndexChange:
    """A version that is being made.  First documents are removed, then what stays is taken over, then parts
    are added.

    `before` is the version that it follows, if there is one; `num_documents` and `num_passages` are its own.
    Its first `_num_same` rows are those of the version before.
    """

    def __init__(self, before: VersionBefore | None, new: Path, making: Making) -> None:
        self.before = before
        self._new, self._making = new, making
        self._removed: dict[int, list[StoredDocument]] = {}
        self._part: PartWriter | None = None
        self._counts: list[int] = []
        self._num_postings = self._num_same = 0
        about = None if before is None else before.about
        self._size = 0 if about is None else about.size
        self.num_documents = 0 if about is None else about.documents
        self.num_passages = 0 if about is None else about.passages

    def documents(self, names: Iterable[str] | None = None) -> dict[str, tuple[int, StoredDocument]]:
        """The documents of these names, or all, of the version before: the part of each, and itself."""
        return {} if self.before is None else self.before.documents(names)

    def remove(self, documents: Iterable[tuple[int, StoredDocument]]) -> None:
        """Remove documents with their passages."""
        for number, document in documents:
            self._removed.setdefault(number, []).append(document)
            self.num_documents -= 1
            self.num_passages -= document.passages

    def take_over(self) -> None:
        """Take over the parts of the version before.  Raises OSError, sqlite3.Error and ValueError."""
        if self.before is None:
            return
        sizes = [
            self.before.size_of(number, self._removed.get(number, ()))
            for number in range(len(self.before.passages.parts))
        ]
        is_same = True
        for group in plan_parts(sizes):
            loses_rows = not group.is_shared and any(sizes[number].removed for number in group.parts)
            is_same = is_same and not loses_rows
            if group.is_shared:
                self._share(self.before, group.parts.start)
            else:
                self._merge(self.before, group)
            if is_same:
                self._num_same = sum(self._counts)

    def _share(self, before: VersionBefore, number: int) -> None:
        own = len(self._counts)
        share_part(before.folder, number, self._new, own)
        removed = self._removed.get(number)
        if removed:
            write_removed(self._new, own, before.passages.parts[number].without(removed))
        self._counts.append(before.about.parts[number])
        if before.postings is not None:
            self._num_postings += len(before.postings.parts[number].rows)

    def _merge(self, before: VersionBefore, group: PartGroup) -> None:
        """Write the documents that are left of some parts as one."""
        for number in group.parts:
            gone = {document.id for document in self._removed.get(number, ())}
            left = [
                document for document in before.passages.parts[number].documents() if document.id not in gone
            ]
            if left:
                self.part().copy(before, number, left)
        self.end_part()

    def part(self) -> PartWriter:
        """The part that is written now; a new one where none is."""
        if self._part is None:
            self._part = PartWriter(self._new, len(self._counts), self._making, self._size)
        return self._part

    def end_part(self) -> None:
        """Write the part that is written now, if one is.  Raises OSError and sqlite3.Error."""
        if self._part is not None:
            self._part.close()
            self._size = self._part.size
            self._counts.append(self._part.num_rows)
            self._num_postings += self._part.postings.count
            self._part = None

    def add(self, name: str, digest: str, attributes: str, passages: Sequence[Passage]) -> None:
        """Add a document, whose vectors come later; `attributes` is JSON.  Raises sqlite3.Error."""
        self.part().passages.add(name, digest, attributes, passages)
        self.num_documents += 1
        self.num_passages += len(passages)

    def describe(
        self, documents: Sequence[tuple[int, StoredDocument]], described: Mapping[str, tuple[str, str]]
    ) -> None:
        """Add documents of the version before with their vectors, and with another digest and attributes."""
        assert self.before is not None
        for number in sorted({number for number, _ in documents}):
            own = sorted(
                (document for part, document in documents if part == number), key=lambda document: document.id
            )
            self.part().copy(self.before, number, own, described)
        self.num_documents += len(documents)
        self.num_passages += sum(document.passages for _, document in documents)

    @property
    def is_part_full(self) -> bool:
        return self._part is not None and is_full(self._part.passages.num_passages)

    def finish(self) -> None:
        """Write what a version has beside its parts.  Raises OSError."""
        self.end_part()
        making = self._making
        if "dense" in making.kinds and any(self._counts):
            stored = DenseVectors(self._new, self._counts, self._size)
            before = None if self.before is None else self.before.folder
            write_graph(before, self._new, stored, making.graph_from, self._num_same)
        About(
            making.model,
            self._size,
            self.num_documents,
            self.num_passages,
            making.precision,
            making.cutting.size,
            making.cutting.overlap,
            making.kinds,
            tuple(self._counts),
            self._num_postings,
            file_lengths(self._new),
        ).write(self._new)

    def close(self) -> None:
        if self._part is not None:
            self._part.abandon()
        if self.before is not None:
            self.before.close()


def is_alike(about: About, making: Making) -> bool:
    """Whether a version was made like this."""
    made = (about.model, Cutting(about.passage_size, about.overlap), about.precision, about.kinds)
    return made == (making.model, making.cutting, making.precision, making.kinds)


@contextmanager
def changing(
    folder: IndexFolder, making: Making, is_usable: Callable[[About], bool], makes_anew: bool = False
) -> Iterator[IndexChange]:
    """A version that follows the current one, where that `is_usable`; it is published at the block's end.

    With `makes_anew` one of another version of Braid is followed by one without its documents, else refused.
    """
    with folder.next_version() as new:
        number = folder.number()
        before = None
        try:
            about = None if number is None else About.read(folder.version(number))
        except OtherFormat:
            if not makes_anew:
                raise
            about = None
        if number is not None and about is not None and is_usable(about):
            before = VersionBefore(folder.version(number), about)
        change = IndexChange(before, new, making)
        try:
            yield change
            change.finish()
        finally:
            change.close()
