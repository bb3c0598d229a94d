"""`braid export FILE.gguf`: a model folder with a graph, without options that would be ignored."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from gguf_files import write_llama_like

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
