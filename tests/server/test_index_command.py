"""`braid index`: writes a model of the task search, and brings it up to date."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from documents import ROOT

from pipelines import Local
from server.cli import main


@pytest.fixture
def models(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    for name in ("braid-embed", "braid-sentiment"):
        (models / name).symlink_to(ROOT / "model_repo" / name)
    return models


def index(source, models, *options):
    words = ["index", str(source), "--embed", "braid-embed", "--to", str(models / "handbook"), *options]
    return CliRunner().invoke(main, words)


def test_a_folder_becomes_a_model_that_finds_and_follows_it(models, tmp_path):
    source = tmp_path / "docs"
    source.mkdir()
    (source / "bread.md").write_text("# Bread\n\nYeast makes dough rise.")
    (source / "moon.html").write_text("<h1>Moon</h1><p>The moon is far away from the earth.")
    (source / "bad.txt").write_bytes(b"\xff\xfe")
    written = index(source, models, "--text-weight", "0.5")
    assert written.exit_code == 0, written.output
    assert "left out: bad.txt: it is no text in UTF-8" in written.output
    assert "2 passages; documents: 2 added or changed, 0 removed, 0 as before" in written.output

    (source / "bread.md").unlink()
    (source / "whales.txt").write_text("Whales are mammals.")
    again = index(source, models)
    assert "2 passages; documents: 1 added or changed, 1 removed, 1 as before" in again.output
    assert "wrote" not in again.output
    with Local(models) as braid:
        best = braid.search("mammals such as whales", model="handbook", top=5)
    assert [hit.document for hit in best] == ["whales.txt", "moon.html"]
    assert set(best[0].scores) == {"dense", "text"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--embed", "nobody"], "The model `nobody` does not exist"),
        (["--size", "10"], "a passage has 50 to 100,000 characters"),
        (["--size", "100", "--overlap", "60"], "passages overlap by half"),
        (["--rerank", "nobody"], "The model `nobody` does not exist"),
        (["--rerank", "braid-sentiment"], "The model `braid-sentiment` does not score or rank"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(models, tmp_path, options, words):
    (tmp_path / "a.txt").write_text("text")
    refused = index(tmp_path / "a.txt", models, *options)
    assert refused.exit_code == 1
    assert words in refused.output
    assert not (models / "handbook" / "graph.yaml").exists()


def test_odd_files_are_named_and_the_rest_is_indexed(models, tmp_path):
    source = tmp_path / "docs"
    source.mkdir()
    (source / "good.md").write_text("Yeast makes dough rise.")
    Path(os.fsdecode(bytes(source) + b"/odd\xff.md")).write_text("Whales are mammals.")
    (source / "unreadable.txt").symlink_to("/proc/self/mem")
    os.mkfifo(source / "pipe.md")
    (source / "gone.md").symlink_to("nowhere")
    written = index(source, models)
    assert written.exit_code == 0, written.output
    assert "left out: unreadable.txt: [Errno" in written.output
    assert "documents: 2 added" in written.output
    with Local(models) as braid:
        hits = braid.search("whales", model="handbook", top=1)
    assert [(hit.document, hit.attributes) for hit in hits] == [("odd\\xff.md", {"filename": "odd\\xff.md"})]


@pytest.mark.parametrize(
    ("graph", "options", "words"),
    [
        ("task: chat\nnodes: {}", [], "holds a model of the task chat"),
        (
            "task: search\nnodes: {a: {type: graph, graph: other}}",
            [],
            "searches with other, not with braid-embed",
        ),
        ("task: [", [], "cannot be read"),
        ("- 1", [], "cannot be read"),
        (None, [], "holds another model"),
        ("task: search\nnodes: {}", ["--text-weight", "nan"], "0<=x"),
        ("task: search\nnodes: {}", ["--text-weight", "-1"], "0<=x"),
    ],
    ids=str,
)
def test_the_folder_of_another_model_stays_as_it_is(models, tmp_path, graph, options, words):
    (tmp_path / "a.txt").write_text("text")
    place = models / "handbook"
    place.mkdir()
    if graph is None:
        (place / "config.json").write_text("{}")
    else:
        (place / "graph.yaml").write_text(graph)
    refused = index(tmp_path / "a.txt", models, *options)
    assert refused.exit_code, refused.output
    assert words in refused.output
    assert not (place / "index").exists()
