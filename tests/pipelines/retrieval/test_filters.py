"""Filters on attributes choose what they say, and wrong ones name their place."""

import json
import sqlite3

import numpy as np
import pytest

from pipelines.base.errors import RequestError
from pipelines.retrieval.filters import where
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_reader import IndexReader
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.index_update import SourceDocument, update
from pipelines.retrieval.passages import STEPS, FilterWork

DOCUMENTS = {
    "a": {"language": "en", "year": 2020, "draft": True},
    "b": {"language": "de", "year": 2024.5},
    "c": {"language": "en", "year": 2026, "odd key": 'q"'},
    "d": {},
    "e": {"year": "unknown", "language": 7},
}


def chosen(given):
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE documents (name TEXT, attributes TEXT)")
    db.executemany("INSERT INTO documents VALUES (?, ?)", [(n, json.dumps(a)) for n, a in DOCUMENTS.items()])
    sql, values = where(given)
    return "".join(n for (n,) in db.execute(f"SELECT name FROM documents WHERE {sql} ORDER BY name", values))


def one(kind, key, value):
    return {"type": kind, "key": key, "value": value}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (one("eq", "language", "en"), "ac"),
        (one("ne", "language", "en"), "bde"),
        (one("gt", "year", 2024), "bc"),
        (one("gte", "year", 2026), "c"),
        (one("lt", "year", 2024), "a"),
        (one("lte", "year", 2024.5), "ab"),
        (one("in", "language", ["de", "fr"]), "b"),
        (one("in", "language", ["de", *map(str, range(4000))]), "b"),
        (one("nin", "language", ["de"]), "acde"),
        (one("gte", "language", "de"), "abc"),  # no number is compared with a text
        (one("lt", "language", "z"), "abc"),
        (one("lte", "year", "v"), "e"),
        (one("eq", "draft", True), "a"),
        (one("eq", "odd key", 'q"'), "c"),
        ({"language": "en", "year": 2026}, "c"),
        ({"type": "en"}, ""),  # an attribute named type
        ({"type": "and", "filters": [one("eq", "language", "en"), one("gt", "year", 2021)]}, "c"),
        ({"type": "or", "filters": [one("eq", "year", 2020), one("eq", "language", "de")]}, "ab"),
    ],
    ids=str,
)
def test_a_filter_chooses(given, names):
    assert chosen(given) == names


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ([], "filters"),
        ({}, "filters"),
        (one("like", "language", "e"), "filters.type"),
        (one("eq", "year", 1 << 63), "filters.value"),
        (one("in", "year", [-(1 << 63) - 1]), "filters.value"),
        (one("eq", "year", float("nan")), "filters.value"),
        (one("lt", "year", float("inf")), "filters.value"),
        (one("eq", "k" * 257, "long"), "filters.key"),
        (one("eq", "", "e"), "filters.key"),
        (one("eq", 'a" OR 1', "e"), "filters.key"),
        (one("eq", "a", None), "filters.value"),
        (one("in", "a", "e"), "filters.value"),
        (one("in", "a", []), "filters.value"),
        (one("nin", "a", ["b"] * 4097), "filters"),
        ({"type": "or", "filters": [one("in", "a", ["b"] * 2000)] * 3}, "filters"),
        ({"type": "and", "filters": []}, "filters.filters"),
        ({"type": "and", "filters": [one("eq", "a", [])]}, "filters.filters.0.value"),
        ({"type": "or", "filters": [one("eq", "a", 1)] * 65}, "filters"),
    ],
    ids=str,
)
def test_a_wrong_filter_names_its_place(given, field):
    with pytest.raises(RequestError) as caught:
        where(given)
    assert caught.value.field == field


def test_depth_is_bounded():
    given = one("eq", "a", 1)
    for _ in range(9):
        given = {"type": "and", "filters": [given]}
    with pytest.raises(RequestError, match="nested"):
        where(given)


def test_work_is_bounded(tmp_path):
    folder = IndexFolder(tmp_path / "index")
    documents = [SourceDocument.of_text(f"d{number}", "text", {"n": number}) for number in range(3000)]
    settings = IndexSettings("m", lambda texts: {"dense": np.ones((len(texts), 2), np.float32)})
    update(folder, documents, settings)
    reader = IndexReader(folder.path)
    condition = where({"type": "or", "filters": [one("gt", "n", 2000 + number) for number in range(64)]})
    assert np.count_nonzero(reader.read(lambda passages: passages.allowed(condition))) == 999
    reader.read(
        lambda passages: passages.parts[0].mark_allowed(None, np.empty(3000, np.bool_), FilterWork(0))
    )
    with pytest.raises(RequestError, match="too many conditions") as caught:
        reader.read(
            lambda passages: passages.parts[0].mark_allowed(
                condition, np.empty(3000, np.bool_), FilterWork(STEPS)
            )
        )
    assert caught.value.field == "filters"
    assert np.count_nonzero(reader.read(lambda passages: passages.allowed(condition))) == 999
    reader.close()
