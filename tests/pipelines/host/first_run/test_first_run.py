"""A model that is new runs in a process of its own first; one that ends it takes nothing else down."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
from breadth import after
from fake_decoder import write_engine_model, write_fake_model
from gguf import GGMLQuantizationType as Type
from gguf_files import write_llama_like
from tensor_models import write_one

from pipelines.base.load_progress import watched
from pipelines.host.first_run import new_models
from pipelines.host.first_run.new_models import FirstRun
from pipelines.host.models.passed_models import PassedModels, folder_digest
from pipelines.loading.load import BuildError, Sources
from pipelines.repository.model_folders import scan

ENDLESS = """endless (float[n] x) => (float[n] y) {
  turns = Constant <value = int64 {1000000000000}> ()
  yes = Constant <value = bool {1}> ()
  y = Loop (turns, yes, x) <body = turn (int64 i, bool go, float[n] v) => (bool again, float[n] w) {
    again = Identity (go)
    w = Sin (v)
  }>
}"""
FIRST_ROW = """first_row (float[n, 4] x) => (float[m, 4] y) {
  first = Constant <value = bool[1] {1}> ()
  y = Compress <axis = 0> (x, first)
}"""


def build(models, passed, limit_s=60.0, open_s=60.0):
    """The only model of a repository, built as a host does."""
    (folder,) = scan(models)
    return FirstRun(passed, limit_s=limit_s, open_s=open_s)(folder, Sources([folder]))


@pytest.fixture
def passed(tmp_path):
    return PassedModels(tmp_path / "cache")


@pytest.fixture
def no_process(monkeypatch):
    """From now on a first run fails the test."""

    def forbid():
        monkeypatch.setattr(subprocess, "Popen", lambda *args, **kwargs: pytest.fail("a process was started"))

    return forbid


def test_a_model_that_passed_is_not_run_again_until_it_changes(tmp_path, passed, no_process):
    write_one(tmp_path / "models" / "sums")
    build(tmp_path / "models", passed).close()
    no_process()
    build(tmp_path / "models", passed).close()
    (tmp_path / "models" / "sums" / "README.md").write_text("a document changes nothing")
    build(tmp_path / "models", PassedModels(tmp_path / "cache")).close()
    graph = tmp_path / "models" / "sums" / "graph.yaml"
    graph.write_text(f"{graph.read_text()}# another graph\n")
    with pytest.raises(pytest.fail.Exception):
        build(tmp_path / "models", passed)


def test_a_model_that_changes_during_its_first_run_has_not_passed(tmp_path, passed, monkeypatch):
    model = tmp_path / "models" / "sums"
    write_one(model)
    before = folder_digest(model)

    def edited(new):
        (model / "graph.yaml").write_text(f"{(model / 'graph.yaml').read_text()}# another graph\n")

    monkeypatch.setattr(new_models, "_try", edited)
    build(tmp_path / "models", passed).close()
    assert passed.holds("sums", before)
    assert not passed.holds("sums", folder_digest(model))


def test_a_model_that_aborts_in_its_first_step_is_a_problem_of_its_own(tmp_path, passed):
    write_engine_model(tmp_path / "models" / "fatal", deadly=7)
    with pytest.raises(BuildError, match=r"fatal: a process of its own ended with SIGABRT when it ran it\."):
        build(tmp_path / "models", passed)
    assert not passed.holds("fatal", folder_digest(tmp_path / "models" / "fatal"))


def test_a_model_that_never_ends_is_given_up(tmp_path, passed):
    write_one(tmp_path / "models" / "endless", text=ENDLESS)
    with pytest.raises(BuildError, match=r"endless: its first run.* did not end within 0\.5 s"):
        build(tmp_path / "models", passed, limit_s=0.5)


def test_what_is_wrong_with_a_model_is_said_as_without_a_first_run(tmp_path, passed):
    write_one(tmp_path / "models" / "broken")
    (tmp_path / "models" / "broken" / "model.onnx").write_bytes(b"no model")
    with pytest.raises(BuildError, match=r"graph\.yaml:8: found \(tensor_model\)"):
        build(tmp_path / "models", passed)


@pytest.mark.breadth
def test_a_model_whose_outputs_have_not_the_rows_of_joined_requests_is_refused(tmp_path, passed):
    model = write_one(tmp_path / "models" / "first", text=FIRST_ROW)
    graph = model / "graph.yaml"
    graph.write_text(graph.read_text().replace("from: request", "from: request\n    max_batch: 8", 1))
    with pytest.raises(
        BuildError, match=r"first run failed: The output `y` is of shape \[1, 4\].* of 3 rows"
    ):
        build(tmp_path / "models", passed)


def test_a_graph_with_problems_starts_no_process(tmp_path, passed, no_process):
    no_process()
    write_engine_model(tmp_path / "models" / "odd")
    graph = tmp_path / "models" / "odd" / "graph.yaml"
    graph.write_text(graph.read_text().replace("sampler", "simpler"))
    with pytest.raises(BuildError, match="simpler"):
        build(tmp_path / "models", passed)


@pytest.mark.parametrize("name", after(1, ["file", 300 * "x"]), ids=["written to", "looked into"])
def test_without_a_place_to_note_it_a_model_is_served_all_the_same(tmp_path, caplog, monkeypatch, name):
    """In a cache that is no folder, or one whose entries the system refuses to look up."""
    monkeypatch.setattr(new_models, "_try", lambda new: None)
    write_engine_model(tmp_path / "models" / "fine")
    (tmp_path / "file").touch()
    build(tmp_path / "models", PassedModels(tmp_path / name)).close()
    assert "cannot be noted" in caplog.text


def test_the_device_counts(tmp_path):
    write_one(tmp_path / "sums")
    assert folder_digest(tmp_path / "sums") != folder_digest(tmp_path / "sums", "cuda:0")


def test_what_workers_open_is_opened_there_before_the_model_is_loaded(tmp_path, passed, no_process):
    model = write_engine_model(tmp_path / "models" / "odd", deadly=7)
    (model / "chat_template.jinja").write_text("{% for message in messages %}")
    with pytest.raises(BuildError, match=r"graph\.yaml:4: prompt \(chat_template\): it does not compile"):
        build(tmp_path / "models", passed)


def test_a_template_that_never_ends_is_given_up(tmp_path, passed):
    model = write_engine_model(tmp_path / "models" / "endless")
    turns = "{% for i in range(99999) %}" * 3
    (model / "chat_template.jinja").write_text(turns + "{% endfor %}" * 3 + "end")
    with pytest.raises(BuildError, match=r"did not open what workers open of it within 0.5 s"):
        build(tmp_path / "models", passed, open_s=0.5)


@pytest.mark.breadth
def test_a_graph_without_an_engine_is_opened_too(tmp_path, passed):
    """Once: it is noted as any other."""
    write_fake_model(tmp_path / "models" / "fake")
    build(tmp_path / "models", passed).close()
    assert passed.holds("fake", folder_digest(tmp_path / "models" / "fake"))


def test_a_model_is_new_to_kernels_that_were_compiled_since(tmp_path, monkeypatch):
    passed = PassedModels(tmp_path)
    passed.add("m", "state")
    assert passed.holds("m", "state")
    monkeypatch.setattr("pipelines.host.models.passed_models.kernel_digests", lambda: "0123")
    assert not passed.holds("m", "state")


def test_how_far_a_first_run_is_with_a_conversion_is_known_to_its_parent(tmp_path, passed):
    """ONNX Runtime opens codes, which that process makes."""
    models, heard = tmp_path / "models", []
    (models / "tiny").mkdir(parents=True)
    write_llama_like(models / "tiny" / "tiny.gguf", kind=Type.Q8_0)
    (folder,) = scan(models, tmp_path / "cache")
    opened = folder.opened()
    graph = opened.graph_text().replace("device: cpu", "device: cpu, engine: onnxruntime")
    opened = replace(opened, graph=graph)
    with watched(lambda what, share: heard.append((what, share))):
        FirstRun(passed)(opened, Sources([opened])).close()
    assert ("converting tiny.gguf", 1.0) in heard
