"""A reader of an index goes on with the version it has while a newer one is opened, and says that it is closed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from patience import PATIENCE_S

from pipelines.retrieval import index_reader
from pipelines.retrieval.cutting import Cutting
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_reader import IndexReader
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.index_update import SourceDocument, update
from pipelines.retrieval.index_version import Query, Version

MAKING = IndexSettings("words", lambda texts: {"dense": np.ones((len(texts), 4), np.float32)}, Cutting(60))


@pytest.fixture
def folder(tmp_path):
    written = IndexFolder(tmp_path / "index")
    update(written, [SourceDocument.of_text("moon.md", "The moon is far.")], MAKING)
    return written


def documents(reader):
    return set(reader.read(lambda passages: passages.sizes()))


class SlowVersion(Version):
    """A version that is opened when a test lets it."""

    begun, may_end = Event(), Event()

    def __init__(self, path):
        self.begun.set()
        assert self.may_end.wait(PATIENCE_S)
        super().__init__(path)


def test_others_search_the_version_that_is_open_while_a_newer_one_is_opened(folder, monkeypatch):
    clock = iter(range(0, 1000, 10)).__next__
    reader = IndexReader(folder.path, clock)
    update(folder, [SourceDocument.of_text("new.md", "Whales.")], MAKING, keeps_others=True)
    monkeypatch.setattr(index_reader, "Version", SlowVersion)
    with ThreadPoolExecutor(1) as pool:
        newer = pool.submit(documents, reader)
        assert SlowVersion.begun.wait(PATIENCE_S)
        assert documents(reader) == {"moon.md"}
        SlowVersion.may_end.set()
        assert newer.result(PATIENCE_S) == {"moon.md", "new.md"}
    assert documents(reader) == {"moon.md", "new.md"}


def test_a_reader_that_is_closed_says_so_and_may_be_closed_again(folder):
    reader = IndexReader(folder.path)
    reader.close()
    reader.close()
    with pytest.raises(ValueError, match="was closed"):
        reader.search([Query("moon", weights={"text": 1.0})], np.zeros((1, 1), np.float32))
    with pytest.raises(ValueError, match="was closed"):
        documents(reader)


def test_a_version_that_is_opened_while_its_reader_is_closed_is_closed_as_well(folder, monkeypatch):
    opened = []

    def version(path):
        reader.close()
        opened.append(Version(path))
        monkeypatch.setattr(opened[0], "close", lambda: closed.append(True))
        return opened[0]

    closed: list[bool] = []
    reader = IndexReader(folder.path, check_s=0.0)
    update(folder, [SourceDocument.of_text("new.md", "Whales.")], MAKING, keeps_others=True)
    monkeypatch.setattr(index_reader, "Version", version)
    with pytest.raises(ValueError, match="was closed"):
        documents(reader)
    assert closed == [True]
