"""An index follows its documents, and is whole whatever happens while it is written."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipelines.retrieval import index_reader
from pipelines.retrieval.about import ABOUT
from pipelines.retrieval.cutting import Cutting
from pipelines.retrieval.dense_vectors import HALVES
from pipelines.retrieval.filters import where
from pipelines.retrieval.index_folder import IndexBusy, IndexFolder
from pipelines.retrieval.index_parts import REMOVED, part_file
from pipelines.retrieval.index_reader import IndexReader
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.index_update import SourceDocument, describe, remove, update
from pipelines.retrieval.index_version import Query
from pipelines.retrieval.passages import FILE
from pipelines.retrieval.source_files import documents_of

TEXTS = {
    "bread.md": "# Bread\n\nYeast makes dough rise. Bakers knead it.",
    "moon.md": "# Moon\n\nThe moon is 384,000 kilometres away from the earth.",
    "law.txt": "A contract binds both parties.",
}


def embed(texts):
    """Words by their place in a small table of hashes: texts with the same words are near."""
    vectors = np.zeros((len(texts), 128), np.float32)
    for row, text in enumerate(texts):
        for word in text.lower().replace(".", " ").split():
            vectors[row, sum(word.encode()) % 128] += 1
    return vectors


def embed_dense(texts):
    return {"dense": embed(texts)}


SETTINGS = IndexSettings("words", embed_dense, Cutting(60))


def documents(texts):
    return [SourceDocument.of_text(name, text) for name, text in texts.items()]


def names(reader, text, **options):
    query = Query(text, 3, **options)
    return [hit.document for hit in reader.search([query], embed([text]))[0]]


@pytest.fixture
def folder(tmp_path):
    folder = IndexFolder(tmp_path / "index")
    update(folder, documents(TEXTS), SETTINGS)
    return folder


def test_passages_are_found_by_vectors_words_and_both(folder):
    reader = IndexReader(folder.path)
    assert names(reader, "dough and yeast")[0] == "bread.md"
    assert names(reader, "kilometres", weights={"text": 1.0}) == ["moon.md"]
    assert names(reader, "the moon", weights={"dense": 1.0, "text": 0.5})[0] == "moon.md"
    assert names(reader, "?!", weights={"text": 1.0}) == []
    (hit,) = reader.search([Query("contract", 1)], embed(["contract"]))[0]
    assert (hit.text, hit.start, set(hit.scores)) == (TEXTS["law.txt"], 0, {"dense"})


def test_what_changed_is_embedded_again_and_nothing_else(folder):
    embedded = []

    def counted(texts):
        embedded.extend(texts)
        return embed_dense(texts)

    changed = {**TEXTS, "law.txt": "Courts judge disputes.", "new.txt": "Whales are mammals."}
    del changed["bread.md"]
    reader = IndexReader(folder.path, clock=iter(range(0, 1000, 10)).__next__)
    report = update(folder, documents(changed), IndexSettings("words", counted, Cutting(60)))
    assert sorted(embedded) == ["Courts judge disputes.", "Whales are mammals."]
    assert (report.added, report.removed, report.unchanged) == (["law.txt", "new.txt"], ["bread.md"], 1)
    assert names(reader, "whales")[0] == "new.txt"  # a reader that was open finds the new version
    assert names(reader, "moon kilometres")[0] == "moon.md"  # whose row has moved
    assert names(reader, "yeast", weights={"text": 1.0}) == []
    assert names(reader, "contract", weights={"text": 1.0}) == []


def test_documents_may_be_added_and_removed_one_by_one(folder):
    update(folder, documents({"new.txt": "Whales are mammals."}), SETTINGS, keeps_others=True)
    remove(folder, ["moon.md", "unknown"], SETTINGS)
    reader = IndexReader(folder.path)
    assert sorted(reader.read(lambda passages: passages.sizes())) == ["bread.md", "law.txt", "new.txt"]
    assert names(reader, "whales")[0] == "new.txt"


def test_attributes_change_without_anything_being_embedded(folder):
    def refuse(texts):
        raise AssertionError("nothing is embedded again")

    settings = IndexSettings("words", refuse, Cutting(60))
    changed = [SourceDocument.of_text(name, text, {"kind": name[:3]}) for name, text in TEXTS.items()]
    unknown = SourceDocument.of_text("unknown", "")
    describe(folder, [*changed, unknown], settings)
    reader = IndexReader(folder.path)
    assert names(reader, "moon", condition=where({"kind": "law"})) == ["law.txt"]
    assert names(reader, "moon kilometres")[0] == "moon.md"
    assert update(folder, changed, settings).unchanged == 3


def test_a_document_may_have_a_cutting_of_its_own(folder):
    long = SourceDocument.of_text("long.txt", "One word and another. " * 20)
    for cutting, num_passages in ((None, 10), (Cutting(500), 1)):
        update(folder, [replace(long, cutting=cutting)], SETTINGS, keeps_others=True)
        sizes = IndexReader(folder.path).read(lambda passages: passages.sizes())
        assert sizes["long.txt"] == (num_passages, 440 - num_passages)
    assert names(IndexReader(folder.path), "moon kilometres")[0] == "moon.md"


def test_a_reader_may_look_for_a_newer_version_at_each_search(folder):
    reader = IndexReader(folder.path, clock=lambda: 0.0, check_s=0.0)
    update(folder, documents({"new.txt": "Whales are mammals."}), SETTINGS, keeps_others=True)
    assert names(reader, "whales")[0] == "new.txt"


def test_an_index_may_be_empty_and_filled_again(folder):
    update(folder, [], SETTINGS)
    assert names(IndexReader(folder.path), "moon") == []
    update(folder, documents(TEXTS), SETTINGS)
    assert names(IndexReader(folder.path), "moon")[0] == "moon.md"


def test_another_way_of_making_makes_all_anew(folder):
    report = update(
        folder,
        documents(TEXTS),
        IndexSettings("other", lambda texts: {"dense": embed(texts)[:, :7]}, Cutting(60)),
    )
    assert len(report.added) == 3
    assert IndexReader(folder.path).about.size == 7


def test_a_document_that_cannot_be_read_is_left_out_and_named(tmp_path):
    source = tmp_path / "docs"
    source.mkdir()
    (source / "good.md").write_text("Yeast makes dough rise.")
    (source / "bad.md").write_bytes(b"\xff\xfe\x00")
    (source / "page.html").write_text("<h1>Moon</h1><script>no</script><p>It is far.")
    (source / "scan.pdf").write_bytes(b"%PDF-1.4")
    (source / ".hidden.md").write_text("no")
    (source / "picture.png").write_bytes(b"\x89PNG")
    folder = IndexFolder(tmp_path / "index")
    report = update(folder, documents_of(source), SETTINGS)
    assert report.added == ["good.md", "page.html"]
    assert "UTF-8" in report.wrong["bad.md"]
    assert "pypdfium2" in report.wrong["scan.pdf"]


def test_an_error_changes_nothing(folder):
    def fails(texts):
        raise OSError(28, "No space left on device")

    before = folder.number()
    with pytest.raises(OSError, match="No space"):
        update(folder, documents({"new.txt": "x y z"}), IndexSettings("words", fails, Cutting(60)))
    assert folder.number() == before
    assert names(IndexReader(folder.path), "moon")[0] == "moon.md"
    assert not list(folder.path.glob(".new-*"))


@pytest.mark.parametrize("has_links", [True, False])
def test_an_added_document_costs_its_own_files_alone(folder, has_links, monkeypatch):
    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError(95, "no links")))
    before = IndexReader(folder.path, clock=lambda: 0.0)
    for name, text in (("new.txt", "Whales are mammals."), ("more.txt", "Rivers meet the sea.")):
        old = {file.name: file.stat() for file in folder.version(folder.number()).glob("*-*")}
        update(folder, documents({name: text}), SETTINGS, keeps_others=True)
        now = {file.name: file.stat() for file in folder.version(folder.number()).glob("*-*")}
        for file, stat in old.items():
            assert (now[file].st_ino == stat.st_ino) == has_links
            assert now[file].st_size == stat.st_size
            assert not has_links or now[file].st_mtime_ns == stat.st_mtime_ns  # nothing is written in place
        new = {file.split("-")[1]: now[file].st_size for file in now.keys() - old.keys()}
        assert new["codes.bin"] + new["halves.bin"] + new["scales.bin"] == 128 * 3 + 8
        assert new["words.bin"] == 4 + 8 * len(text.split())
        assert len(new) == 5
        assert new["passages.sqlite"] <= 1 << 16
        assert names(before, "the moon")[0] == "moon.md"
        assert names(IndexReader(folder.path), text)[0] == name


def test_a_changed_document_costs_its_own_vectors_alone(tmp_path):
    """What was removed is found by nothing, until it is much: then what is left is written as one part."""
    folder = IndexFolder(tmp_path / "index")
    texts = {f"{number}.txt": f"common number{number}" for number in range(20)}
    update(folder, documents(texts), SETTINGS)
    for changes in range(1, 4):
        name = f"{changes}.txt"
        texts[name] = f"common changed{changes}"
        update(folder, documents(texts), SETTINGS)
        reader = IndexReader(folder.path)
        assert reader.about.rows == (20 + changes if changes < 3 else 20)
        for weights in ({"dense": 1.0}, {"text": 1.0}):
            hits = reader.search([Query("common", 30, weights)], embed(["common"]))[0]
            assert sorted(hit.text for hit in hits) == sorted(texts.values())
        assert names(reader, f"changed{changes}")[0] == name
    remove(folder, ["1.txt"], SETTINGS)
    update(folder, documents({"new.txt": "Whales are mammals."}), SETTINGS, keeps_others=True)
    assert names(IndexReader(folder.path), "whales")[0] == "new.txt"
    assert "1.txt" not in names(IndexReader(folder.path), "changed1")


def test_two_writers_do_not_write_at_once(folder):
    with folder.next_version() as new:
        shutil.copytree(folder.version(folder.number()), new, dirs_exist_ok=True)
        with pytest.raises(IndexBusy, match="another process"):
            update(folder, documents(TEXTS), SETTINGS)
    update(folder, documents(TEXTS), SETTINGS)


def test_a_writer_that_is_killed_leaves_the_old_index(folder):
    code = f"""
        import os, signal, sys
        sys.path[:0] = [{os.path.dirname(__file__)!r}, {os.getcwd()!r}]
        import test_index_update as t
        def dies(texts):
            os.kill(os.getpid(), signal.SIGKILL)
        from pathlib import Path
        t.update(t.IndexFolder(Path({str(folder.path)!r})), t.documents({{"n": "x"}}), t.IndexSettings("words", dies, t.Cutting(60)))
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert list(folder.path.glob(".new-*"))  # what it has left
    assert names(IndexReader(folder.path), "moon")[0] == "moon.md"
    update(folder, documents(TEXTS), SETTINGS)
    assert not list(folder.path.glob(".new-*"))


@pytest.mark.parametrize("limit", [1 << 12, 1 << 16])
def test_a_writer_without_room_leaves_the_old_index(folder, limit):
    """A file may have no more bytes than the limit: the system refuses the rest, as on a full disk."""
    code = f"""
        import os, resource, sqlite3, sys
        sys.path[:0] = [{os.path.dirname(__file__)!r}, {os.getcwd()!r}]
        import test_index_update as t
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
        new = {{f"{{i}}.txt": f"number {{i}} " * 9 for i in range(999)}}
        try:
            t.update(t.IndexFolder(t.Path({str(folder.path)!r})), t.documents(new), t.SETTINGS, keeps_others=True)
        except (OSError, sqlite3.Error):
            sys.exit(7)
    """
    before = folder.number()
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=120, check=False)
    assert (ended.returncode, folder.number()) == (7, before)
    assert not list(folder.path.glob(".new-*"))
    assert names(IndexReader(folder.path), "moon")[0] == "moon.md"


def damage_vectors(version):
    codes = version / "0-codes.bin"
    codes.unlink()  # the version before may have the same file
    codes.write_bytes(b"x")


def damage_passages(version):
    passages = part_file(version, 0, FILE)
    passages.unlink()
    passages.write_bytes(b"no database at all" * 100)


def remove_words(version):
    (version / "0-words.bin").unlink()


def damage_about(version):
    (version / "about.json").write_text("{}")


def cut_words(version):
    (words,) = version.glob("0-words.bin")
    whole = words.read_bytes()
    words.unlink()
    words.write_bytes(whole[:-8])  # still a file of words, of one less


def lose_removed(version):
    """What was removed would be found again."""
    part_file(version, 0, REMOVED).unlink()


def lose_halves(version):
    part_file(version, 0, HALVES).unlink()


def remove_version(version):
    shutil.rmtree(version)


@pytest.mark.parametrize(
    "damage",
    [
        damage_vectors,
        damage_passages,
        damage_about,
        remove_words,
        cut_words,
        lose_removed,
        lose_halves,
        remove_version,
    ],
)
def test_a_damaged_version_is_refused_and_one_that_is_open_serves_on(folder, damage, caplog):
    reader = IndexReader(folder.path, clock=iter(range(0, 1000, 10)).__next__)
    many = {f"{number}.txt": f"number {number}" for number in range(20)}
    update(folder, documents({**TEXTS, **many}), SETTINGS)
    for name in ("3.txt", "4.txt"):  # the first merges the parts
        remove(folder, [name], SETTINGS)
    damage(folder.version(folder.number()))
    assert names(reader, "moon")[0] == "moon.md"
    assert "stays at version 1" in caplog.text
    with pytest.raises((ValueError, sqlite3.Error), match="damaged|database"):
        IndexReader(folder.path)
    if damage is not remove_version:
        with pytest.raises((OSError, ValueError, sqlite3.Error)):
            update(folder, documents({"new.txt": "Whales."}), SETTINGS, keeps_others=True)


def test_rows_that_an_index_has_not_are_an_error_that_says_what_to_do(folder):
    reader = IndexReader(folder.path)
    words = folder.version(1) / "0-words.bin"
    words.write_bytes(words.read_bytes()[:12] + b"\x7f" * (words.stat().st_size - 12))
    reader._version.words.parts[0]._rows[:] = 0x7F7F7F7F  # a small file was copied
    with pytest.raises(ValueError, match="index the documents again"):
        names(reader, "moon", weights={"text": 1.0})


@pytest.mark.parametrize("error", [None, FileNotFoundError("gone"), sqlite3.OperationalError("gone")])
def test_a_version_that_a_writer_removes_while_it_is_opened_is_not_taken(folder, error, monkeypatch):
    opened, open_version = [], index_reader.Version

    def slow(path):
        version = open_version(path)
        opened.append(path.name)
        if path.name == "1":
            for name in ("new.txt", "newer.txt"):
                update(folder, documents({name: "Whales are mammals."}), SETTINGS, keeps_others=True)
            if error is not None:
                version.close()
                raise error
        return version

    monkeypatch.setattr(index_reader, "Version", slow)
    reader = IndexReader(folder.path)
    assert opened == ["1", "3"]
    assert reader.about.documents == len(TEXTS) + 2
    reader.close()


def test_vectors_of_another_model_are_refused(folder):
    with pytest.raises(ValueError, match="vectors of 128 numbers, from words"):
        IndexReader(folder.path).search([Query("moon")], np.zeros((1, 7), np.float32))


def test_an_index_of_another_version_of_braid_is_made_anew_or_refused(folder):
    about = folder.version(1) / ABOUT
    about.write_text(json.dumps({**json.loads(about.read_text()), "format": 3}))
    with pytest.raises(ValueError, match=r"format 3, and this Braid reads 6: index the documents again"):
        IndexReader(folder.path)
    for refused in (
        lambda: update(folder, documents(TEXTS), SETTINGS, keeps_others=True),
        lambda: remove(folder, ["moon.md"], SETTINGS),
        lambda: describe(folder, documents(TEXTS), SETTINGS),
    ):
        with pytest.raises(ValueError, match="index the documents again"):
            refused()
    assert update(folder, documents(TEXTS), SETTINGS).added == [*TEXTS]
    assert names(IndexReader(folder.path), "moon")[0] == "moon.md"
