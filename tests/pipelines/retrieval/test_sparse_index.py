"""Sparse vectors in an index: searches give the largest products of all rows, whatever was added and removed."""

from dataclasses import replace

import numpy as np
import pytest

from pipelines.base.errors import RequestError
from pipelines.retrieval.cutting import Cutting
from pipelines.retrieval.filters import where
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_reader import IndexReader
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.index_update import SourceDocument, remove, update
from pipelines.retrieval.index_version import Query
from pipelines.retrieval.postings import Postings, PostingsWriter
from pipelines.values.node_values import SparseVectors

VOCABULARY = 40


def random_rows(seed, count):
    """float32[count, VOCABULARY] of which most are 0; one row has none that is not."""
    rng = np.random.default_rng(seed)
    values = rng.random((count, VOCABULARY), np.float32) * (rng.random((count, VOCABULARY)) < 0.15)
    values[count // 2] = 0
    return values.astype(np.float32)


def sparse(values):
    rows, ids = np.nonzero(values)
    lengths = np.bincount(rows, minlength=len(values)).astype(np.int32)
    return SparseVectors(ids.astype(np.int32), values[rows, ids], lengths, VOCABULARY)


def terms(query):
    ids = np.flatnonzero(query).astype(np.int32)
    return ids, query[ids]


def expected(values, query, top, allowed=None):
    scores = values @ query
    if allowed is not None:
        scores = np.where(allowed, scores, 0)
    best = np.lexsort((np.arange(len(values)), -scores))[:top]
    return [(row, pytest.approx(scores[row], rel=1e-5)) for row in best if scores[row] > 0]


def written(folder, *parts, copies=lambda writer: None):
    """A version of these parts; the first begins with what is copied."""
    counts, num_postings = [], 0
    for number, vectors in enumerate(parts):
        writer = PostingsWriter(folder, number)
        num_copied = (copies(writer) if number == 0 else None) or 0
        writer.append(num_copied, vectors)
        writer.write()
        counts.append(num_copied + len(vectors))
        num_postings += writer.count
    return Postings(folder, counts, num_postings)


@pytest.mark.parametrize("seed", range(8))
def test_the_best_rows_are_those_of_the_products(seed, tmp_path):
    first, second, queries = random_rows(seed, 60), random_rows(seed + 100, 25), random_rows(seed + 200, 5)
    before = written(tmp_path, sparse(first))
    stays = np.flatnonzero(np.random.default_rng(seed).random(60) < 0.7)
    merged, shared = tmp_path / "merged", tmp_path / "shared"
    merged.mkdir()
    shared.mkdir()

    def copies(writer):
        writer.copy(0, before.parts[0], stays)
        return len(stays)

    indexes = [
        (before, first),
        (written(merged, sparse(second), copies=copies), np.concatenate([first[stays], second])),
        (
            written(shared, sparse(first), sparse(first[:0]), sparse(second)),
            np.concatenate([first, second]),
        ),
    ]
    assert [len(index.parts) for index, _ in indexes] == [1, 1, 3]
    for query in queries:
        for index, values in indexes:
            for mask in (None, np.random.default_rng(seed).random(len(values)) < 0.5):
                for top in (1, 7, 1000):
                    rows, scores = index.best(*terms(query), top, mask)
                    assert [*zip(rows, scores, strict=True)] == expected(values, query, top, mask)


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    num_postings = written(tmp_path, sparse(random_rows(1, 9))).num_postings
    for file, data in (("0-weights.bin", b"abcd"), ("0-terms.bin", None)):
        place = tmp_path / file
        place.unlink() if data is None else place.write_bytes(data)
        with pytest.raises(ValueError, match="the index is damaged"):
            Postings(tmp_path, [9], num_postings)


def embed(texts):
    """One term for each letter: texts of the same letters are near, by both kinds."""
    values = np.zeros((len(texts), VOCABULARY), np.float32)
    for row, text in enumerate(texts):
        for letter in text.lower():
            values[row, ord(letter) % VOCABULARY] += 1
    return {"dense": values, "sparse": sparse(values)}


SETTINGS = IndexSettings("letters", embed, Cutting(60), kinds=("dense", "sparse"))
TEXTS = {"a.txt": "aab", "b.txt": "bbbb", "c.txt": "cd"}


def found(folder, text, **options):
    vectors = embed([text])
    query = Query(text, 3, terms=next(iter(vectors["sparse"])), **options)
    return IndexReader(folder.path).search([query], vectors["dense"])[0]


@pytest.fixture
def folder(tmp_path):
    folder = IndexFolder(tmp_path / "index")
    update(
        folder, [SourceDocument.of_text(name, text, {"name": name}) for name, text in TEXTS.items()], SETTINGS
    )
    return folder


def test_an_index_is_searched_by_sparse_vectors_and_by_both(folder):
    by_sparse = found(folder, "b", weights={"sparse": 1.0})
    assert [(hit.document, hit.score) for hit in by_sparse] == [("b.txt", 4.0), ("a.txt", 1.0)]
    assert found(folder, "b", weights={"sparse": 1.0}, condition=where({"name": "a.txt"}))[0].score == 1.0
    both = found(folder, "b", weights={"dense": 1.0, "sparse": 2.0, "text": 0.0})
    assert set(both[0].scores) == {"dense", "sparse"}
    assert both[0].score == pytest.approx(3 / 61)


def test_an_update_keeps_the_sparse_vectors_of_what_stays(folder):
    remove(folder, ["a.txt"], SETTINGS)
    update(folder, [SourceDocument.of_text("d.txt", "bd")], SETTINGS, keeps_others=True)
    hits = found(folder, "b", weights={"sparse": 1.0})
    assert [(hit.document, hit.score) for hit in hits] == [("b.txt", 4.0), ("d.txt", 1.0)]


def test_an_index_may_have_sparse_vectors_alone(tmp_path):
    settings = replace(SETTINGS, embed=lambda texts: {"sparse": embed(texts)["sparse"]}, kinds=("sparse",))
    folder = IndexFolder(tmp_path / "index")
    for texts in ({"a.txt": "aab"}, TEXTS):
        update(folder, [SourceDocument.of_text(*item) for item in texts.items()], settings)
    assert [hit.document for hit in found(folder, "b", weights={"sparse": 1.0})] == ["b.txt", "a.txt"]
    with pytest.raises(RequestError, match="holds no dense vectors"):
        found(folder, "b")


def test_other_kinds_make_all_anew(folder):
    documents = [SourceDocument.of_text(name, text, {"name": name}) for name, text in TEXTS.items()]
    assert update(folder, documents, SETTINGS).added == []
    report = update(folder, documents, replace(SETTINGS, kinds=("dense",)))
    assert len(report.added) == 3
    with pytest.raises(RequestError, match="holds no sparse vectors"):
        found(folder, "b", weights={"sparse": 1.0})
