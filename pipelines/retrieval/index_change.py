"""A new version of an index while it is made from the one before: parts are shared, merged, and added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pipelines.retrieval.about import About, OtherFormat, version_files
from pipelines.retrieval.cutting import Cutting, Passage
from pipelines.retrieval.dense_vectors import DenseVectors
from pipelines.retrieval.file_sums import FileSum, sums_of
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_parts import (
    DESCRIBED,
    REMOVED,
    Described,
    PartGroup,
    is_full,
    part_file,
    plan_parts,
    share_part,
    write_described,
    write_removed,
)
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.near_graph import FILE as GRAPH
from pipelines.retrieval.near_graph import write_graph
from pipelines.retrieval.part_writer import PartWriter, VersionBefore
from pipelines.retrieval.passages import StoredDocument


class IndexChange:
    """A version that is being made.  First documents are removed or described, then what stays is taken over,
    then parts are added.

    `before` is the version that it follows, if there is one; `num_documents` and `num_passages` are its own.
    Its first `_num_same` rows are those of the version before.
    """

    def __init__(self, before: VersionBefore | None, new: Path, settings: IndexSettings) -> None:
        self.before = before
        self._new, self._settings = new, settings
        self._removed: dict[int, list[StoredDocument]] = {}
        self._described: dict[int, dict[int, tuple[str, str]]] = {}
        self._sums: dict[str, FileSum] = {}
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

    def describe(self, described: Mapping[str, tuple[str, str]]) -> None:
        """Give documents, as far as they are there, another digest and other attributes (JSON)."""
        for number, document in self.documents(described).values():
            self._described.setdefault(number, {})[document.id] = described[document.name]

    def take_over(self) -> None:
        """Take over the parts of the version before.  Raises OSError, sqlite3.Error and ValueError."""
        if self.before is None:
            return
        sizes = [
            self.before.size_of(number, self._removed.get(number, ()), self._described.get(number, {}))
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
        own, part = len(self._counts), before.passages.parts[number]
        for name, own_name in share_part(before.folder, number, self._new, own).items():
            if name in before.about.files:
                self._sums[own_name] = before.about.files[name]
        removed, described = self._removed.get(number), self._described.get(number)
        if removed:
            write_removed(self._new, own, part.without(removed))
            self._sums.pop(part_file(self._new, own, REMOVED).name, None)
        if described:
            write_described(self._new, own, {**part.described, **described})
            self._sums.pop(part_file(self._new, own, DESCRIBED).name, None)
        self._counts.append(before.about.parts[number])
        if before.postings is not None:
            self._num_postings += len(before.postings.parts[number].rows)

    def _merge(self, before: VersionBefore, group: PartGroup) -> None:
        """Write the documents that are left of some parts as one."""
        for number in group.parts:
            before.check_part(number)
            gone = {document.id for document in self._removed.get(number, ())}
            described = self._described.get(number, {})
            left = [
                _described(document, described)
                for document in before.passages.parts[number].documents()
                if document.id not in gone
            ]
            if left:
                self.part().copy(before, number, left)
        self.end_part()

    def part(self) -> PartWriter:
        """The part that is written now; a new one where none is."""
        if self._part is None:
            self._part = PartWriter(self._new, len(self._counts), self._settings, self._size)
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

    @property
    def is_part_full(self) -> bool:
        return self._part is not None and is_full(self._part.passages.num_passages)

    def finish(self) -> None:
        """Write what a version has beside its parts.  Raises OSError."""
        self.end_part()
        settings = self._settings
        if "dense" in settings.kinds and any(self._counts):
            stored = DenseVectors(self._new, self._counts, self._size)
            before = None if self.before is None else self.before.folder
            is_shared = write_graph(before, self._new, stored, settings.graph_from, self._num_same)
            if is_shared and self.before is not None:
                self._sums[GRAPH] = self.before.about.files[GRAPH]
        About(
            settings.model,
            self._size,
            self.num_documents,
            self.num_passages,
            settings.precision,
            settings.cutting.size,
            settings.cutting.overlap,
            settings.kinds,
            tuple(self._counts),
            self._num_postings,
            sums_of(version_files(self._new), self._sums),
        ).write(self._new)

    def close(self) -> None:
        if self._part is not None:
            self._part.abandon()
        if self.before is not None:
            self.before.close()


def _described(document: StoredDocument, described: Described) -> StoredDocument:
    """A document as it is described now."""
    if document.id not in described:
        return document
    digest, attributes = described[document.id]
    return replace(document, digest=digest, attributes=attributes)


def is_alike(about: About, settings: IndexSettings) -> bool:
    """Whether a version was made like this."""
    made = (about.model, Cutting(about.passage_size, about.overlap), about.precision, about.kinds)
    return made == (settings.model, settings.cutting, settings.precision, settings.kinds)


@contextmanager
def changing(
    folder: IndexFolder, settings: IndexSettings, is_usable: Callable[[About], bool], makes_anew: bool = False
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
        change = IndexChange(before, new, settings)
        try:
            yield change
            change.finish()
        finally:
            change.close()
