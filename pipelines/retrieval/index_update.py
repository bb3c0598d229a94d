"""Brings an index up to date with documents: what is unchanged is copied, the rest is cut and embedded."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.retrieval.cutting import Cutting, Passage, cut
from pipelines.retrieval.dense_vectors import MAX_PARTS, DenseVectors, Precision, Rows, VectorWriter, unit
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_reader import ABOUT, About
from pipelines.retrieval.near_graph import LEAST_ROWS, write_graph
from pipelines.retrieval.passages import FILE, PassageWriter
from pipelines.retrieval.postings import Postings, PostingsWriter
from pipelines.values.node_values import SparseVectors, Vectors

Embed = Callable[[list[str]], Mapping[str, Vectors]]
"""The vectors of texts by their kind; may be called in another thread."""
REMOVED_SHARE = 8
"""Where more than one row in this number is of a removed passage, a version is written as a whole."""
GROUP = 256
"""Passages that are embedded by one call; the next group is cut and the last one written meanwhile."""


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document: its name, the digest of its content, and what reads its text or raises ValueError.

    `cutting`, where it has one, is its own; else that of the index is used.
    """

    name: str
    digest: str
    read: Callable[[], str]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    cutting: Cutting | None = None

    @classmethod
    def of_text(cls, name: str, text: str, attributes: Mapping[str, Any] | None = None) -> SourceDocument:
        return cls(name, hashlib.sha256(text.encode()).hexdigest(), lambda: text, attributes or {})


@dataclass(frozen=True, slots=True)
class Making:
    """How an index is made.  Where one of these differs from what is there, all is made anew.

    `kinds`: those of `embed`: dense, float32[texts, size], sparse, or both.  From `graph_from` dense vectors
    on an index has a graph of them.
    """

    model: str
    embed: Embed
    cutting: Cutting = field(default_factory=Cutting)
    precision: Precision = "float16"
    kinds: tuple[str, ...] = ("dense",)
    graph_from: int = LEAST_ROWS


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """How far an update is: documents that are added, and those that are wrong, with the reason."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    passages: int = 0
    wrong: dict[str, str] = field(default_factory=dict)


Progress = Callable[[UpdateReport, int], None]
"""Called after each group of passages, with how many were embedded."""


def update(
    folder: IndexFolder,
    documents: Iterable[SourceDocument],
    making: Making,
    progress: Progress = lambda report, embedded: None,
    keeps_others: bool = False,
) -> UpdateReport:
    """Make a new version of the index from these documents, and publish it; nothing changes on an error.

    A document that cannot be read is left out, and in the report's `wrong`.  `keeps_others`: documents that
    are not given stay.  Raises IndexBusy, OSError, sqlite3.Error, and what `embed` raises.
    """
    wanted = {document.name: document for document in documents}
    with _changing(folder, making, lambda path: _is_alike(path, making)) as change:
        known = change.passages.digests()
        changed = [name for name, document in wanted.items() if known.get(name) != _digest(document)]
        gone = [] if keeps_others else [name for name in known if name not in wanted]
        change.passages.remove([*gone, *(name for name in changed if name in known)])
        report = UpdateReport(removed=gone, unchanged=len(wanted) - len(changed))
        change.copy_remaining()
        _Writer(change, making, report, progress).add(wanted[name] for name in changed)
    return replace(report, passages=change.num_passages)


def remove(folder: IndexFolder, names: Iterable[str], making: Making) -> UpdateReport:
    """Publish a version without these documents.  Raises as `update`."""
    if folder.number() is None:
        return UpdateReport()
    gone = set(names)
    with _changing(folder, making) as change:
        present = [name for name in change.passages.digests() if name in gone]
        change.passages.remove(present)
        change.copy_remaining()
    return UpdateReport(removed=present, passages=change.num_passages)


def describe(folder: IndexFolder, documents: Iterable[SourceDocument], making: Making) -> None:
    """Publish a version in which these documents, as far as it has them, have their new attributes.

    Nothing is cut or embedded again.  Raises as `update`.
    """
    if folder.number() is None:
        return
    with _changing(folder, making) as change:
        for document in documents:
            change.passages.describe(document.name, _digest(document), document.attributes)
        change.copy_remaining()


@dataclass(slots=True)
class _Change:
    """A version that is being written, from the one before if there is one.

    `size` is that of a dense vector, 0 where none is known; `num_rows` have vectors so far, those of removed
    passages too; `shares_rows`: they begin with all rows of the version before; `num_passages` is known once
    the version is written.
    """

    before: Path | None
    passages: PassageWriter
    vectors: VectorWriter
    postings: PostingsWriter
    size: int = 0
    shares_rows: bool = False
    num_rows: int = 0
    num_passages: int = 0

    def copy_remaining(self) -> None:
        """Take over the vectors of the passages that are left.

        The version before shares its files, and rows of passages that were removed stay unused; where these
        or its parts are many, what is left is written as one part.
        """
        if self.before is None:
            return
        about, rows = About.read(self.before), self.passages.rows()
        self.size, num_removed = about.size, about.rows - len(rows)
        dense = DenseVectors(self.before, about.rows, about.size) if "dense" in about.kinds else None
        sparse = Postings(self.before, about.rows, about.postings) if "sparse" in about.kinds else None
        num_parts = max(len(stored.parts) for stored in (dense, sparse) if stored is not None)
        if num_removed * REMOVED_SHARE <= about.rows and num_parts < MAX_PARTS:
            self.num_rows, self.shares_rows = about.rows, True
            self._share(dense, sparse)
        else:
            self.passages.number_rows()
            self.num_rows = len(rows)
            self._copy(dense, sparse, rows)

    def _share(self, dense: DenseVectors | None, sparse: Postings | None) -> None:
        if dense is not None:
            self.vectors.share(dense)
        if sparse is not None:
            self.postings.share(sparse)

    def _copy(self, dense: DenseVectors | None, sparse: Postings | None, rows: Rows) -> None:
        if dense is not None:
            self.vectors.copy(dense, rows)
        if sparse is not None:
            self.postings.copy(sparse, rows)

    def append(self, vectors: Mapping[str, Vectors], model: str) -> None:
        """Add vectors of each kind.  Raises OSError, and ValueError for those of another model."""
        dense, sparse = vectors.get("dense"), vectors.get("sparse")
        if isinstance(dense, np.ndarray):
            self._check_size(dense.shape[1], model)
            self.vectors.append(unit(dense))
        if isinstance(sparse, SparseVectors):
            self.postings.append(self.num_rows, sparse)
        self.num_rows += len(next(iter(vectors.values())))

    def _check_size(self, size: int, model: str) -> None:
        if self.size not in (0, size):
            raise ValueError(
                f"{model} gives {size} numbers for a text, and the index holds {self.size}: it was made with "
                "another model; remove it, and write it again"
            )
        self.size = size


def _is_alike(path: Path, making: Making) -> bool:
    """Whether a version was made like this."""
    about = About.read(path)
    made = (about.model, Cutting(about.passage_size, about.overlap), about.precision, about.kinds)
    return made == (making.model, making.cutting, making.precision, making.kinds)


@contextmanager
def _changing(
    folder: IndexFolder, making: Making, is_usable: Callable[[Path], bool] = lambda path: True
) -> Iterator[_Change]:
    """A version that begins with the passages of the current one, where that `is_usable`, and is published at
    the end of the block.
    """
    with folder.next_version() as new:
        number = folder.number()
        before = None if number is None else folder.version(number)
        if before is not None and not is_usable(before):
            before = None
        if before is not None:
            shutil.copyfile(before / FILE, new / FILE)
        passages = PassageWriter(new)
        try:
            with VectorWriter(new, making.precision) as vectors:
                change = _Change(before, passages, vectors, PostingsWriter(new))
                yield change
            if "sparse" in making.kinds:
                change.postings.write()
            if "dense" in making.kinds and change.num_rows:
                stored = DenseVectors(new, change.num_rows, change.size)
                write_graph(before if change.shares_rows else None, new, stored, making.graph_from)
            num_documents, change.num_passages = passages.count()
        finally:
            passages.close()
        _write_about(new, making, change, num_documents)


def _write_about(new: Path, making: Making, change: _Change, num_documents: int) -> None:
    about = About(
        making.model,
        change.size,
        num_documents,
        change.num_passages,
        making.precision,
        making.cutting.size,
        making.cutting.overlap,
        making.kinds,
        change.num_rows,
        change.postings.count,
    )
    (new / ABOUT).write_text(json.dumps(asdict(about)), encoding="utf-8")


class _Writer:
    """Cuts, embeds and writes documents: one group is embedded while the one before is written."""

    def __init__(self, change: _Change, making: Making, report: UpdateReport, progress: Progress) -> None:
        self._change, self._making = change, making
        self._report, self._progress = report, progress
        self._num_rows = change.num_rows
        self._embedded = 0

    def add(self, documents: Iterable[SourceDocument]) -> None:
        """Add documents.  Raises what `embed` raises, OSError and sqlite3.Error."""
        waiting: Future[Mapping[str, Vectors]] | None = None
        with ThreadPoolExecutor(1, thread_name_prefix="embed") as thread:
            for group in self._groups(documents):
                texts = [passage.text for passage in group]
                started = thread.submit(self._making.embed, texts)
                if waiting is not None:
                    self._write(waiting.result())
                waiting = started
            if waiting is not None:
                self._write(waiting.result())

    def _groups(self, documents: Iterable[SourceDocument]) -> Iterator[list[Passage]]:
        """The passages of documents, which are written at once, in groups whose vectors come later."""
        group: list[Passage] = []
        for document in documents:
            try:
                cut_text = cut(document.read(), document.cutting or self._making.cutting)
            except (ValueError, OSError) as error:
                self._report.wrong[document.name] = str(error)
                continue
            number = self._change.passages.add(document.name, _digest(document), document.attributes)
            self._change.passages.add_passages(number, self._num_rows, cut_text)
            self._num_rows += len(cut_text)
            self._report.added.append(document.name)
            group += cut_text
            while len(group) >= GROUP:
                yield group[:GROUP]
                group = group[GROUP:]
        if group:
            yield group

    def _write(self, vectors: Mapping[str, Vectors]) -> None:
        first_row = self._change.num_rows
        self._change.append(vectors, self._making.model)
        self._embedded += self._change.num_rows - first_row
        self._progress(self._report, self._embedded)


def _digest(document: SourceDocument) -> str:
    """The digest of a document with its attributes and its own cutting."""
    attributes = json.dumps(dict(document.attributes), sort_keys=True, ensure_ascii=False)
    cutting = f"\0{document.cutting}" if document.cutting else ""
    return hashlib.sha256(f"{document.digest}\0{attributes}{cutting}".encode()).hexdigest()
