"""Brings an index up to date with documents: what is unchanged is copied, the rest is cut and embedded."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pipelines.retrieval.cutting import Cutting, Passage, cut
from pipelines.retrieval.dense_vectors import DenseVectors, Floats, Precision, VectorWriter, unit
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_reader import ABOUT, About
from pipelines.retrieval.passages import FILE, PassageWriter

Embed = Callable[[list[str]], Floats]
"""float32[texts, size] of texts; may be called in another thread."""
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
    """How an index is made.  Where one of these differs from what is there, all is made anew."""

    model: str
    embed: Embed
    cutting: Cutting = field(default_factory=Cutting)
    precision: Precision = "float16"


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
    with folder.next_version() as new:
        before = _before(folder, making)
        if before is not None:
            shutil.copyfile(before / FILE, new / FILE)
        passages = PassageWriter(new)
        try:
            known = passages.digests()
            changed = [name for name, document in wanted.items() if known.get(name) != _digest(document)]
            gone = [] if keeps_others else [name for name in known if name not in wanted]
            passages.remove([*gone, *(name for name in changed if name in known)])
            report = UpdateReport(removed=gone, unchanged=len(wanted) - len(changed))
            with VectorWriter(new, making.precision) as vectors:
                size = _copy_remaining(before, passages, vectors)
                writer = _Writer(passages, vectors, making, report, progress, size)
                writer.add(wanted[name] for name in changed)
            num_documents, num_passages = passages.count()
        finally:
            passages.close()
        about = About(
            making.model,
            writer.size,
            num_documents,
            num_passages,
            making.precision,
            making.cutting.size,
            making.cutting.overlap,
        )
        (new / ABOUT).write_text(json.dumps(asdict(about)), encoding="utf-8")
    return replace(report, passages=num_passages)


def remove(folder: IndexFolder, names: Iterable[str], making: Making) -> UpdateReport:
    """Publish a version without these documents.  Raises as `update`."""
    gone, present = set(names), list[str]()

    def change(passages: PassageWriter) -> None:
        present.extend(name for name in passages.digests() if name in gone)
        passages.remove(present)

    num_passages = _changed(folder, making, change)
    return UpdateReport(removed=present, passages=num_passages)


def describe(folder: IndexFolder, documents: Iterable[SourceDocument], making: Making) -> None:
    """Publish a version in which these documents, as far as it has them, have their new attributes.

    Nothing is cut or embedded again.  Raises as `update`.
    """

    def change(passages: PassageWriter) -> None:
        for document in documents:
            passages.describe(document.name, _digest(document), document.attributes)

    _changed(folder, making, change)


def _changed(folder: IndexFolder, making: Making, change: Callable[[PassageWriter], None]) -> int:
    """Publish a version whose passages were changed or removed; how many it has."""
    number = folder.number()
    if number is None:
        return 0
    with folder.next_version() as new:
        before = folder.version(number)
        shutil.copyfile(before / FILE, new / FILE)
        passages = PassageWriter(new)
        try:
            change(passages)
            with VectorWriter(new, making.precision) as vectors:
                size = _copy_remaining(before, passages, vectors)
            num_documents, num_passages = passages.count()
        finally:
            passages.close()
        about = replace(About.read(before), size=size, documents=num_documents, passages=num_passages)
        (new / ABOUT).write_text(json.dumps(asdict(about)), encoding="utf-8")
    return num_passages


class _Writer:
    """Cuts, embeds and writes documents: one group is embedded while the one before is written."""

    def __init__(
        self,
        passages: PassageWriter,
        vectors: VectorWriter,
        making: Making,
        report: UpdateReport,
        progress: Progress,
        size: int,
    ) -> None:
        self._passages, self._vectors, self._making = passages, vectors, making
        self._report, self._progress = report, progress
        self._num_rows = passages.count()[1]
        self._embedded = 0
        self.size = size

    def add(self, documents: Iterable[SourceDocument]) -> None:
        """Add documents.  Raises what `embed` raises, OSError and sqlite3.Error."""
        waiting: Future[Floats] | None = None
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
            number = self._passages.add(document.name, _digest(document), document.attributes)
            self._passages.add_passages(number, self._num_rows, cut_text)
            self._num_rows += len(cut_text)
            self._report.added.append(document.name)
            group += cut_text
            while len(group) >= GROUP:
                yield group[:GROUP]
                group = group[GROUP:]
        if group:
            yield group

    def _write(self, vectors: Floats) -> None:
        if self.size not in (0, vectors.shape[1]):
            raise ValueError(
                f"{self._making.model} gives {vectors.shape[1]} numbers for a text, and the index holds "
                f"{self.size}: it was made with another model; remove it, and write it again"
            )
        self.size = vectors.shape[1]
        self._vectors.append(unit(vectors))
        self._embedded += len(vectors)
        self._progress(self._report, self._embedded)


def _before(folder: IndexFolder, making: Making) -> Path | None:
    """The version that is current, if it was made alike."""
    number = folder.number()
    if number is None:
        return None
    path = folder.version(number)
    about = About.read(path)
    cutting = Cutting(about.passage_size, about.overlap)
    is_alike = (about.model, cutting, about.precision) == (making.model, making.cutting, making.precision)
    return path if is_alike else None


def _copy_remaining(before: Path | None, passages: PassageWriter, vectors: VectorWriter) -> int:
    """Copy the vectors of the passages that are left; the size of a vector, 0 where none is known."""
    if before is None:
        return 0
    about = About.read(before)
    vectors.copy(DenseVectors(before, about.passages, about.size), passages.remaining_rows())
    return about.size


def _digest(document: SourceDocument) -> str:
    """The digest of a document with its attributes and its own cutting."""
    attributes = json.dumps(dict(document.attributes), sort_keys=True, ensure_ascii=False)
    cutting = f"\0{document.cutting}" if document.cutting else ""
    return hashlib.sha256(f"{document.digest}\0{attributes}{cutting}".encode()).hexdigest()
