"""Whatever was added, changed and removed, an index finds what one that is written at once finds, in few parts."""

import math
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from pipelines.retrieval import index_parts
from pipelines.retrieval.about import About
from pipelines.retrieval.cutting import Cutting
from pipelines.retrieval.filters import where
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_parts import PartSize, plan_parts
from pipelines.retrieval.index_reader import IndexReader
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.index_update import SourceDocument, describe, remove, update
from pipelines.retrieval.index_version import Query
from pipelines.values.node_values import SparseVectors

SIZE, VOCABULARY = 8, 50


def embed(texts):
    """Vectors that are drawn by the text."""
    draws = [np.random.default_rng(list(text.encode())) for text in texts]
    dense = np.stack([draw.standard_normal(SIZE, np.float32) for draw in draws])
    ids = [draw.choice(VOCABULARY, 6, replace=False).astype(np.int32) for draw in draws]
    weights = np.concatenate([draw.random(6, np.float32) + 0.1 for draw in draws])
    return {
        "dense": dense,
        "sparse": SparseVectors(np.concatenate(ids), weights, np.full(len(texts), 6, np.int32), VOCABULARY),
    }


SETTINGS = IndexSettings("m", embed, Cutting(50), kinds=("dense", "sparse"))


def document(number, version=0, kind=0):
    draw = random.Random(f"{number} {version}")
    count = draw.randrange(0, 60)
    text = " ".join(f"w{int(draw.paretovariate(0.8))}" for _ in range(count))
    return SourceDocument.of_text(f"d{number}", text, {"kind": kind})


def searches(folder):
    """What a reader finds, by documents and places: rows differ from index to index."""
    reader = IndexReader(folder.path)
    vectors = embed([f"query {number}" for number in range(3)])
    queries = [
        Query("w1 w2 w7", top, weights, condition, terms)
        for terms in vectors["sparse"]
        for weights in ({"dense": 1.0}, {"sparse": 1.0}, {"text": 1.0})
        for top in (3, 1000)
        for condition in (None, where({"kind": 1}))
    ]
    replies = reader.search(queries, np.repeat(vectors["dense"], 12, axis=0))
    about = reader.about
    reader.close()
    hits = [[(round(hit.score, 4), hit.document, hit.start, hit.text) for hit in reply] for reply in replies]
    ordered = [
        sorted(own, reverse=True) if query.top == 1000 else [hit[0] for hit in own]
        for query, own in zip(queries, hits, strict=True)
    ]
    return ordered, about


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.breadth) for seed in range(2, 8))]
)
def test_changes_in_any_order_give_what_one_update_gives(tmp_path, seed, monkeypatch):
    monkeypatch.setattr(index_parts, "PART_ROWS", 40 if seed % 2 else 1 << 16)
    draw = random.Random(seed)
    folder = IndexFolder(tmp_path / "index")
    wanted: dict[int, tuple[int, int]] = {}
    for step in range(25):
        chosen = draw.sample(range(40), draw.choice([1, 1, 2, 12]))
        match draw.randrange(4):
            case 0 | 1:
                wanted |= {number: (step, draw.randrange(2)) for number in chosen}
                added = [document(number, *wanted[number]) for number in chosen]
                assert update(folder, added, SETTINGS, keeps_others=True).passages >= 0
            case 2:
                for number in chosen:
                    wanted.pop(number, None)
                remove(folder, [f"d{number}" for number in chosen], SETTINGS)
            case 3:
                own = {number: (wanted[number][0], 1) for number in chosen if number in wanted}
                wanted |= own
                describe(folder, [document(number, *version) for number, version in own.items()], SETTINGS)
    once = IndexFolder(tmp_path / "once")
    documents = [document(number, *version) for number, version in wanted.items()]
    update(once, documents, SETTINGS)
    (changed, about), (expected, about_once) = searches(folder), searches(once)
    assert changed == expected
    assert (about.documents, about.passages) == (about_once.documents, about_once.passages)
    assert len(about.parts) <= 12
    assert about.rows <= 1.5 * about.passages + 20
    assert update(folder, documents, SETTINGS).unchanged == len(wanted)


def test_many_small_updates_make_few_parts_and_write_little(tmp_path):
    folder = IndexFolder(tmp_path / "index")
    update(folder, [document(number) for number in range(1000, 1300)], SETTINGS)
    first = {file.stat().st_ino for file in folder.version(1).glob("0-*")}
    written = 0
    for number in range(40):
        update(folder, [document(number)], SETTINGS, keeps_others=True)
        version = folder.version(folder.number())
        about = About.read(version)
        assert len(about.parts) <= 2 + math.log2(40)
        written += sum(file.stat().st_size for file in version.glob("*-*") if file.stat().st_nlink == 1)
        assert {file.stat().st_ino for file in version.glob("0-*")} == first
    assert written < 40 * 12 * (1 << 15)


def test_searches_go_on_while_an_index_is_updated(tmp_path):
    """Parts are merged and old versions removed meanwhile; what is never changed is always found."""
    folder = IndexFolder(tmp_path / "index")
    fixed = [SourceDocument.of_text(f"fixed{number}", f"stays {number}") for number in range(5)]
    update(folder, fixed, SETTINGS)
    ended = threading.Event()

    def search():
        reader, num_searches = IndexReader(folder.path, check_s=0.0), 0
        vectors = embed(["stays 3"])
        query = Query(
            "stays", 5, {"dense": 1.0, "sparse": 1.0, "text": 1.0}, None, next(iter(vectors["sparse"]))
        )
        while not ended.is_set() or not num_searches:
            (hits,) = reader.search([query], vectors["dense"])
            assert hits[0].document == "fixed3"
            (hits,) = reader.search([replace(query, weights={"text": 1.0})], vectors["dense"])
            assert {hit.document for hit in hits} == {document.name for document in fixed}
            num_searches += 1
        reader.close()
        return num_searches

    with ThreadPoolExecutor(2) as threads:
        searching = [threads.submit(search) for _ in range(2)]
        try:
            for number in range(12):
                update(folder, [document(number), document(number + 1, number)], SETTINGS, keeps_others=True)
                remove(folder, [f"d{number - 3}"], SETTINGS)
                describe(folder, [document(number, kind=1)], SETTINGS)
        finally:
            ended.set()
        assert all(thread.result() for thread in searching)


def test_the_last_parts_are_merged_and_full_ones_stay():
    def plan(*rows):
        groups = plan_parts([PartSize(count, 0, 0) for count in rows])
        return [(group.parts.start, group.parts.stop) for group in groups if not group.is_shared]

    full = index_parts.PART_ROWS
    assert plan() == []
    assert plan(10) == []
    assert plan(100, 10) == []
    assert plan(100, 10, 10) == [(1, 3)]
    assert plan(100, 20, 10, 10) == [(1, 4)]
    assert plan(30, 20, 10) == [(0, 3)]
    assert plan(full, full, 5) == []
    assert plan(full, full - 3, 5) == []
    assert plan(0, 0) == [(0, 2)]
    removed = [PartSize(100, 30, 5), PartSize(10, 0, 1)]
    assert [group.is_shared for group in plan_parts(removed)] == [False, True]
    assert [group.is_shared for group in plan_parts([PartSize(100, 12, 5), removed[1]])] == [True, True]
