"""Brings an index up to date with documents: what is unchanged is copied, the rest is cut and embedded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from pipelines.retrieval.cutting import Cutting, Passage, cut
from pipelines.retrieval.index_change import IndexChange, changing, is_alike
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.values.node_values import Vectors

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
    settings: IndexSettings,
    progress: Progress = lambda report, embedded: None,
    keeps_others: bool = False,
) -> UpdateReport:
    """Make a new version of the index from these documents, and publish it; nothing changes on an error.

    A document that cannot be read is left out, and in the report's `wrong`.  `keeps_others`: documents that
    are not given stay.  Raises IndexBusy, OSError, sqlite3.Error, and what `embed` raises.
    """
    wanted = {document.name: document for document in documents}
    with changing(
        folder, settings, lambda about: is_alike(about, settings), makes_anew=not keeps_others
    ) as change:
        known = change.documents(wanted if keeps_others else None)
        digests = {name: document.digest for name, (_, document) in known.items()}
        changed = [name for name, document in wanted.items() if digests.get(name) != _digest(document)]
        gone = [name for name in known if name not in wanted]
        change.remove(known[name] for name in [*gone, *changed] if name in known)
        report = UpdateReport(removed=gone, unchanged=len(wanted) - len(changed))
        change.take_over()
        _Writer(change, settings, report, progress).add(wanted[name] for name in changed)
    return replace(report, passages=change.num_passages)


def remove(folder: IndexFolder, names: Iterable[str], settings: IndexSettings) -> UpdateReport:
    """Publish a version without these documents.  Raises as `update`."""
    if folder.number() is None:
        return UpdateReport()
    with changing(folder, settings, lambda about: True) as change:
        known = change.documents(dict.fromkeys(names))
        change.remove(known.values())
        change.take_over()
    return UpdateReport(removed=[*known], passages=change.num_passages)


def describe(folder: IndexFolder, documents: Iterable[SourceDocument], settings: IndexSettings) -> None:
    """Publish a version in which these documents, as far as it has them, have their new attributes.

    Nothing is cut or embedded again; no passages, words and vectors are read, but where many documents of a
    part are described again.  Raises as `update`.
    """
    if folder.number() is None:
        return
    described = {
        document.name: (_digest(document), _attributes(document.attributes)) for document in documents
    }
    with changing(folder, settings, lambda about: True) as change:
        change.describe(described)
        change.take_over()


class _Writer:
    """Cuts, embeds and writes documents: one group is embedded while the one before is written."""

    def __init__(
        self, change: IndexChange, settings: IndexSettings, report: UpdateReport, progress: Progress
    ) -> None:
        self._change, self._settings = change, settings
        self._report, self._progress = report, progress
        self._embedded = 0

    def add(self, documents: Iterator[SourceDocument]) -> None:
        """Add documents, in as many parts as they need.

        Raises what `embed` raises, OSError, ValueError and sqlite3.Error.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="embed") as thread:
            while self._add_part(documents, thread):
                self._change.end_part()

    def _add_part(self, documents: Iterator[SourceDocument], thread: ThreadPoolExecutor) -> bool:
        """Add documents until the part is full; whether it is."""
        waiting: Future[Mapping[str, Vectors]] | None = None
        for group in self._groups(documents):
            texts = [passage.text for passage in group]
            started = thread.submit(self._settings.embed, texts)
            if waiting is not None:
                self._write(waiting.result())
            waiting = started
        if waiting is not None:
            self._write(waiting.result())
        return self._change.is_part_full

    def _groups(self, documents: Iterator[SourceDocument]) -> Iterator[list[Passage]]:
        """The passages of documents, which are written at once, in groups whose vectors come later."""
        group: list[Passage] = []
        for document in documents:
            try:
                passages = cut(document.read(), document.cutting or self._settings.cutting)
            except (ValueError, OSError) as error:
                self._report.wrong[document.name] = str(error)
                continue
            self._change.add(document.name, _digest(document), _attributes(document.attributes), passages)
            self._report.added.append(document.name)
            group += passages
            while len(group) >= GROUP:
                yield group[:GROUP]
                group = group[GROUP:]
            if self._change.is_part_full:
                break
        if group:
            yield group

    def _write(self, vectors: Mapping[str, Vectors]) -> None:
        part = self._change.part()
        first_row = part.num_rows
        part.append(vectors)
        self._embedded += part.num_rows - first_row
        self._progress(self._report, self._embedded)


def _attributes(attributes: Mapping[str, Any]) -> str:
    return json.dumps(dict(attributes), ensure_ascii=False)


def _digest(document: SourceDocument) -> str:
    """The digest of a document with its attributes and its own cutting."""
    attributes = json.dumps(dict(document.attributes), sort_keys=True, ensure_ascii=False)
    cutting = f"\0{document.cutting}" if document.cutting else ""
    return hashlib.sha256(f"{document.digest}\0{attributes}{cutting}".encode()).hexdigest()
