"""Damage that leaves a file of an index as long as it was is found before it is searched, or soon after."""

import shutil
import time

import numpy as np
import pytest

from pipelines.retrieval import version_files
from pipelines.retrieval.about import About
from pipelines.retrieval.cutting import Cutting
from pipelines.retrieval.file_sums import sum_of
from pipelines.retrieval.filters import where
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_parts import DESCRIBED
from pipelines.retrieval.index_reader import IndexReader, check_index
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.index_update import SourceDocument, describe, remove, update
from pipelines.retrieval.index_version import Query
from pipelines.values.node_values import SparseVectors

SIZE = 8


def embed(texts):
    ids = np.arange(len(texts), dtype=np.int32)
    ones = np.ones(len(texts), np.float32)
    draw = np.random.default_rng(len(texts))
    return {
        "dense": draw.standard_normal((len(texts), SIZE), np.float32),
        "sparse": SparseVectors(ids, ones, ids * 0 + 1, 1000),
    }


SETTINGS = IndexSettings("m", embed, Cutting(60), kinds=("dense", "sparse"))


def documents(numbers, **attributes):
    return [SourceDocument.of_text(f"{number}.txt", f"word{number}", attributes) for number in numbers]


@pytest.fixture
def folder(tmp_path):
    """Two parts, one of which lists a removed document and described ones."""
    folder = IndexFolder(tmp_path / "index")
    update(folder, documents(range(100)), SETTINGS)
    update(folder, documents(range(100, 104)), SETTINGS, keeps_others=True)
    remove(folder, ["7.txt"], SETTINGS)
    describe(folder, documents([3, 4], kind="new"), SETTINGS)
    return folder


def current(folder):
    return folder.version(folder.number())


def damage(path):
    """Other bytes in a file of the same length, which no other version has."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    path.write_bytes(data)


def search(reader, condition=None):
    return reader.search([Query("word3", 200, {"text": 1.0}, condition)], np.zeros((1, 1), np.float32))[0]


def test_each_file_has_its_sum_and_damage_of_any_is_found(folder, tmp_path):
    files = About.read(current(folder)).files
    kinds = {name.partition("-")[2] for name in files}
    assert {"codes.bin", "weights.bin", "words.bin", "passages.sqlite", "removed.bin", DESCRIBED} < kinds
    for name, wanted in files.items():
        assert sum_of(current(folder) / name) == wanted
        copy = IndexFolder(tmp_path / f"copy-{name}")
        shutil.copytree(folder.path, copy.path)
        damage(current(copy) / name)
        with pytest.raises(ValueError, match=r"damaged|index"):
            IndexReader(copy.path)
        with pytest.raises(ValueError, match=r"damaged|index"):
            check_index(copy.path)
    check_index(folder.path)


def test_a_new_version_reads_its_own_files_alone(folder, monkeypatch):
    reads = []
    monkeypatch.setattr(version_files, "check_sum", lambda path, wanted, is_wanted: reads.append(path.name))
    reader = IndexReader(folder.path, check_s=0.0)
    assert sorted(reads) == sorted(About.read(current(folder)).files)
    reads.clear()
    remove(folder, ["8.txt"], SETTINGS)
    search(reader)
    assert reads == ["0-removed.bin"]
    reader.close()


def test_a_file_that_is_read_later_ends_the_searches_of_its_version(folder, monkeypatch):
    monkeypatch.setattr(version_files, "CHECKED_FIRST", 4096)
    whole = current(folder) / "0-passages.sqlite"
    IndexReader(folder.path).close()
    data = whole.read_bytes()
    at = data.index(b"word3")
    whole.unlink()
    whole.write_bytes(data[:at] + b"sword" + data[at + 5 :])
    reader = IndexReader(folder.path, check_s=0.0)
    for _ in range(600):
        if reader._rest.fault:
            break
        time.sleep(0.05)
    with pytest.raises(
        ValueError, match=r"0-passages.sqlite holds other bytes than were written: .*index the"
    ):
        search(reader)
    fresh = IndexSettings("m", embed, Cutting(61), kinds=("dense", "sparse"))
    update(folder, documents(range(3)), fresh)  # made anew: nothing of the damaged version is in it
    assert [hit.document for hit in search(reader, where({"type": "ne", "key": "kind", "value": "x"}))] == []
    reader.close()


def test_a_damaged_part_is_not_merged(folder):
    damage(current(folder) / "0-weights.bin")
    update(folder, documents(range(200, 420)), SETTINGS, keeps_others=True)  # shares the part, with its sum
    with pytest.raises(ValueError, match=r"0-weights.bin holds other bytes"):
        IndexReader(folder.path)
    before = folder.number()
    with pytest.raises(ValueError, match=r"0-weights.bin holds other bytes"):
        update(folder, documents([500]), SETTINGS, keeps_others=True)  # would merge it
    assert folder.number() == before


def test_new_attributes_are_written_beside_a_part_until_they_are_many(folder):
    def shared():
        """Files of the first part but the attributes, by numbers that stay taken while a version has them."""
        return {file.name: file.stat().st_ino for file in current(folder).glob("0-*") if file.name != written}

    written = f"0-{DESCRIBED}"
    reader = IndexReader(folder.path, check_s=0.0)
    first = shared()
    for number in (5, 6, 3):
        before = (current(folder) / written).read_bytes()
        describe(folder, documents([number], kind=f"k{number}"), SETTINGS)
        assert shared() == first
        assert (current(folder) / written).read_bytes() != before
    wanted = {"3.txt": "k3", "4.txt": "new", "5.txt": "k5", "6.txt": "k6"}
    for document, kind in wanted.items():
        assert document in reader.read(
            lambda passages, kind=kind: [
                passages.at([int(row)])[int(row)].document
                for row in np.flatnonzero(passages.allowed(where({"kind": kind})))
            ]
        )
    kept = update(folder, documents([3], kind="k3"), SETTINGS, keeps_others=True)
    assert kept.unchanged == 1  # its digest is that of the new attributes
    remove(folder, ["4.txt"], SETTINGS)
    describe(folder, documents(range(10, 20), kind="many"), SETTINGS)
    assert not (current(folder) / written).exists()
    allowed = reader.read(
        lambda passages: passages.allowed(
            where({"type": "in", "key": "kind", "value": ["many", "k3", "new"]})
        )
    )
    assert np.count_nonzero(allowed) == 11
    reader.close()
