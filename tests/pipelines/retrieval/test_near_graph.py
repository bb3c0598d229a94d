"""Indexes of many vectors, which are searched by a graph: built, shared, extended, and left out."""

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pipelines.retrieval import near_graph
from pipelines.retrieval.dense_vectors import DenseVectors, VectorWriter, unit
from pipelines.retrieval.filters import where
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_reader import IndexReader
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.index_update import SourceDocument, remove, update
from pipelines.retrieval.index_version import Query
from pipelines.retrieval.near_graph import FILE, write_graph

SIZE, COUNT = 24, 4000
needs_usearch = pytest.mark.skipif(not near_graph.has_library(), reason="needs usearch (pip install usearch)")


def random_vectors(count, seed=0):
    return unit(np.random.default_rng(seed).standard_normal((count, SIZE)).astype(np.float32))


def embed(texts):
    """The vector of a text is that of its number."""
    return {"dense": np.stack([random_vectors(1, int(text.split()[-1]))[0] for text in texts])}


def document(number):
    kind = "odd" if number % 2 else "even"
    return SourceDocument.of_text(f"d{number}", f"text {number}", {"kind": kind, "nine": number % 999 == 9})


SETTINGS = IndexSettings("m", embed, graph_from=1000)


def recall(found, exact):
    pairs = zip(found, exact, strict=True)
    return np.mean([len({*a[0].tolist()} & {*b[0].tolist()}) / len(b[0]) for a, b in pairs])


@needs_usearch
@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_the_graph_finds_the_best_and_scores_them_exactly(tmp_path, precision):
    with VectorWriter(tmp_path, precision) as writer:
        writer.append(random_vectors(COUNT))
    stored = DenseVectors(tmp_path, [COUNT], SIZE)
    queries = random_vectors(50, 1)
    exact = stored.nearest(queries, 10)
    write_graph(None, tmp_path, stored, 1000)
    stored.use_graph()
    nearest = stored.nearest(queries, 10)
    assert recall(nearest, exact) > 0.97
    for (rows, scores), (wanted, exact_scores) in zip(nearest, exact, strict=True):
        if rows.tolist() == wanted.tolist():
            np.testing.assert_allclose(scores, exact_scores, atol=1e-6)
    odd = np.arange(COUNT) % 2 == 1
    few = np.zeros(COUNT, np.bool_)
    few[:20] = True
    assert all((rows % 2 == 1).all() and len(rows) == 10 for rows, _ in stored.nearest(queries, 10, odd))
    assert all({*rows.tolist()} <= {*range(20)} for rows, _ in stored.nearest(queries, 10, few))
    assert [len(rows) for rows, _ in stored.nearest(queries[:1], COUNT)] == [COUNT]


@needs_usearch
def test_searches_at_once_give_what_each_gives_alone(tmp_path):
    with VectorWriter(tmp_path, "int8") as writer:
        writer.append(random_vectors(COUNT))
    write_graph(None, tmp_path, DenseVectors(tmp_path, [COUNT], SIZE), 1000)
    graph = near_graph.NearGraph.of(tmp_path, SIZE)
    searches = [(query, 1 + 200 * (i % 2)) for i, query in enumerate(random_vectors(64, 1))]
    alone = [graph.near(query, top).tolist() for query, top in searches]
    with ThreadPoolExecutor(8) as threads:
        together = threads.map(lambda search: graph.near(*search).tolist(), searches * 8)
        assert [*together] == alone * 8


@needs_usearch
def test_updates_share_the_graph_and_extend_it(tmp_path):
    folder = IndexFolder(tmp_path / "index")

    def graph():
        path = folder.version(folder.number()) / FILE
        return (
            (path.stat().st_ino, IndexReader(folder.path)._version.vectors.graph) if path.exists() else None
        )

    def finds(number):
        reader = IndexReader(folder.path)
        (hits,) = reader.search([Query("", 1)], embed([f"text {number}"])["dense"])
        reader.close()
        return hits[0].document == f"d{number}" and hits[0].score == pytest.approx(1, abs=1e-3)

    update(folder, [document(number) for number in range(900)], SETTINGS)
    assert graph() is None
    update(folder, [document(number) for number in range(900, 1100)], SETTINGS, keeps_others=True)
    first = graph()
    assert first[1].count == 1100
    update(
        folder, [document(number) for number in range(1, 1150)], SETTINGS
    )  # 50 more, and the first is removed
    second = graph()
    assert (second[0], second[1].count) == (first[0], 1100)  # the same file
    assert all(finds(number) for number in (1, 500, 1099, 1149))
    assert not finds(0)
    update(folder, [document(number) for number in range(1150, 1400)], SETTINGS, keeps_others=True)
    third = graph()
    assert (third[0] != first[0], third[1].count) == (True, 1400)
    assert all(finds(number) for number in (1, 500, 1149, 1399))
    update(
        folder, [document(number) for number in range(500, 1400)], SETTINGS
    )  # a third is gone: written as a whole
    assert graph() is None
    assert all(finds(number) for number in (500, 1399))

    condition = where({"nine": True})
    (hits,) = IndexReader(folder.path).search([Query("", 5, condition=condition)], random_vectors(1))
    assert {hit.document for hit in hits} == {"d1008"}


@needs_usearch
@pytest.mark.parametrize("has_links", [True, False])
def test_merged_parts_keep_the_graph_unless_rows_of_it_leave(tmp_path, has_links, monkeypatch):
    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError(95, "no links")))
    folder = IndexFolder(tmp_path / "index")

    def state():
        """The parts of the current version, how many vectors its graph has, and whether it is not new."""
        version = folder.version(folder.number())
        reader = IndexReader(folder.path)
        graph, parts = reader._version.vectors.graph, reader.about.parts
        for number in (1, 991, 996, 1004, 1005):
            (hits,) = reader.search([Query("", 1)], embed([f"text {number}"])["dense"])
            assert (hits[0].document == f"d{number}") == (hits[0].score == pytest.approx(1, abs=1e-3))
        reader.close()
        earlier = folder.version(folder.number() - 1) / FILE
        return parts, graph.count, earlier.exists() and earlier.samefile(version / FILE)

    def add(first, end):
        update(folder, [document(number) for number in range(first, end)], SETTINGS, keeps_others=True)

    update(folder, [document(number) for number in range(990)], SETTINGS)
    for first, end in ((990, 1000), (1000, 1005), (1005, 1010)):
        add(first, end)
    assert state() == ((990, 10, 5, 5), 1000, has_links)
    add(1010, 1011)
    assert state() == ((990, 20, 1), 1000, has_links)
    remove(folder, ["d991"], SETTINGS)
    assert state() == ((990, 20, 1), 1000, has_links)
    add(1011, 1030)
    assert state() == ((990, 20, 1, 19), 1000, has_links)
    add(1030, 1031)
    assert state() == ((990, 39, 1), 1030, False)


@needs_usearch
def test_a_damaged_graph_is_named(tmp_path):
    folder = IndexFolder(tmp_path / "index")
    update(folder, [document(number) for number in range(1100)], SETTINGS)
    path = folder.version(folder.number()) / FILE
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="the index is damaged"):
        IndexReader(folder.path)


def test_without_the_library_searches_are_exact(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(near_graph, "has_library", lambda: False)
    folder = IndexFolder(tmp_path / "index")
    with caplog.at_level(logging.WARNING):
        update(folder, [document(number) for number in range(1100)], SETTINGS)
        (folder.version(folder.number()) / FILE).touch()
        reader = IndexReader(folder.path)
    assert "pip install usearch makes searches fast" in caplog.text
    assert "is not used: pip install usearch" in caplog.text
    (hits,) = reader.search([Query("", 1)], embed(["text 7"])["dense"])
    assert hits[0].document == "d7"
