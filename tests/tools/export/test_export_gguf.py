"""`braid export FILE.gguf`: a model folder with a graph, without options that would be ignored."""

from __future__ import annotations

import subprocess

import pytest
from click.testing import CliRunner
from gguf_files import write_llama_like
from gguf_vision import FAMILIES, MODEL, PROJECTOR, write_seeing

from pipelines.host.first_run.new_models import FirstRun
from pipelines.host.models.passed_models import PassedModels
from pipelines.loading.load import Sources
from pipelines.repository.model_folders import scan
from tools.export.__main__ import main


@pytest.fixture
def source(tmp_path):
    write_llama_like(tmp_path / "tiny.gguf")
    return str(tmp_path / "tiny.gguf")


def export(source, tmp_path, *options):
    return CliRunner().invoke(main, [source, "--name", "tiny", "--models", str(tmp_path / "repo"), *options])


def test_a_file_becomes_a_folder_with_a_graph(source, tmp_path):
    assert export(source, tmp_path).exit_code == 0
    assert "path: model/model.onnx" in (tmp_path / "repo" / "tiny" / "graph.yaml").read_text()


def test_an_option_that_would_be_ignored_is_refused(source, tmp_path):
    done = export(source, tmp_path, "--weights", "int8")
    assert (done.exit_code, "'--weights': a GGUF file is taken as it is" in done.output) == (2, True)


def test_a_damaged_file_leaves_no_folder(tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" * 20)
    assert export(str(tmp_path / "bad.gguf"), tmp_path).exit_code == 1
    assert not (tmp_path / "repo" / "tiny").exists()


def test_a_server_on_this_machine_needs_no_first_run_of_what_an_export_ran(source, tmp_path, monkeypatch):
    cache, models = tmp_path / "cache", tmp_path / "repo"
    done = export(source, tmp_path, "--first-run", "--cache", str(cache))
    assert (done.exit_code, "does not run here" in done.output) == (0, False)
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **kwargs: pytest.fail("a process was started"))
    (folder,) = scan(models)
    FirstRun(PassedModels(cache))(folder, Sources([folder])).close()


def test_an_exported_model_that_cannot_run_here_is_said(source, tmp_path):
    export(source, tmp_path)
    graph = tmp_path / "repo" / "tiny" / "graph.yaml"
    graph.write_text(graph.read_text().replace("device: cpu", "device: cuda:0"))
    done = export(source, tmp_path, "--first-run", "--cache", str(tmp_path / "cache"))
    assert (done.exit_code, "It does not run here: " in done.output) == (0, True)


def test_a_projector_of_any_name_is_given(tmp_path):
    folder, eyes, out = tmp_path / "files", tmp_path / "eyes.gguf", tmp_path / "seeing"
    write_seeing(FAMILIES["llava"], folder)
    (folder / PROJECTOR).rename(eyes)
    assert export(str(folder / MODEL), tmp_path, "--no-first-run").exit_code == 0
    assert "type: images" not in (tmp_path / "repo" / "tiny" / "graph.yaml").read_text()
    done = export(str(folder / MODEL), tmp_path, "--mmproj", str(eyes), "--out", str(out))
    assert (done.exit_code, "does not run here" in done.output) == (0, False)
    text = (out / "graph.yaml").read_text()
    assert "Reads images with eyes.gguf (mlp)" in text
    assert "type: images" in text
    wrong = export(str(folder / MODEL), tmp_path, "--mmproj", str(folder / MODEL), "--out", f"{out}-2")
    assert (wrong.exit_code, "is of architecture llama, not clip" in wrong.output) == (1, True)
