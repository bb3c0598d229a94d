"""The command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from breadth import after
from click.testing import CliRunner
from fake_decoder import byte_tokenizer

from server import cli


@pytest.fixture
def run(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("BRAID_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BRAID_MODELS", str(tmp_path))
    monkeypatch.setattr("pipelines.inference.backends.cpu_kernels.kernel_library", lambda engine: None)
    return lambda *arguments: CliRunner().invoke(cli.main, [str(each) for each in arguments])


@pytest.fixture
def model(tmp_path) -> Path:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "openvino_model.xml").touch()
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture
def started(monkeypatch):
    """What `serve` would become: its command and the BRAID_ variables."""
    seen = {}

    def become(file, command, environment):
        seen["command"] = command
        seen["set"] = {name: value for name, value in environment.items() if name.startswith("BRAID_")}

    monkeypatch.setattr(os, "execve", become)
    return seen


def test_help_imports_nothing_heavy():
    heavy = "{'numpy', 'pydantic', 'openvino', 'falcon', 'torch'}"
    code = f"import sys, server.cli; sys.exit(bool({heavy} & set(sys.modules)))"
    root = Path(cli.__file__).resolve().parents[1]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


def test_version(run):
    from server.base.version import VERSION

    assert run("--version").output == f"braid {VERSION}\n"


@pytest.mark.parametrize(
    "command", ["serve", "check", "draw", "new-graph", "schema", "export", "chat", "bench", "top"]
)
def test_every_command_is_listed(command, run):
    assert f"  {command} " in run("--help").output


# --- serve


def test_serve_becomes_gunicorn_with_its_configuration(run, started):
    run("serve")
    assert started["command"][1:3] == ["-m", "gunicorn"]
    assert started["command"][3:] == ["-c", str(Path(cli.__file__).with_name("gunicorn_conf.py"))]


def test_serve_sets_only_what_is_given(run, started, tmp_path):
    run("serve", "--port", 9000)
    assert started["set"] == {"BRAID_MODELS": str(tmp_path), "BRAID_PORT": "9000"}


def test_serve_sets_everything_given(run, started, model):
    run(
        "serve",
        "--host",
        "::",
        "--models",
        model,
        "--workers",
        3,
        "--in-process",
        "--api-key",
        "a",
        "--api-key",
        "b",
    )
    assert started["set"] == {
        "BRAID_HOST": "::",
        "BRAID_MODELS": str(model),
        "BRAID_WORKERS": "3",
        "BRAID_IN_PROCESS": "1",
        "BRAID_API_KEYS": "a\nb",
    }


def test_what_serve_sets_is_what_the_server_reads(run, started, model):
    from server.base.environment import read_settings

    run("serve", "--port", 9, "--models", model, "--in-process", "--api-key", "a", "--api-key", "b")
    settings = read_settings(started["set"])
    assert (settings.port, settings.models, settings.in_process, settings.api_keys) == (
        9,
        model,
        True,
        ("a", "b"),
    )


def test_serve_passes_the_rest_to_gunicorn(run, started):
    run("serve", "--", "--access-logfile", "-")
    assert started["command"][-2:] == ["--access-logfile", "-"]


@pytest.mark.parametrize(
    "wrong",
    [
        ("--port", "70000"),
        ("--workers", "0"),
        ("--models", "/nowhere"),
        ("--api-key", "a,b"),
        ("--prot", "1"),
    ],
)
def test_serve_refuses(wrong, run, started):
    assert run("serve", *wrong).exit_code == 2
    assert started == {}


def test_serve_says_how_models_are_named(run, started):
    assert "no file or folder model.gguf is here" in run("serve", "model.gguf").output
    assert started == {}


def test_serve_suggests_the_option_that_was_meant(run, started):
    assert "--port" in run("serve", "--prot", "1").output


# --- check and draw


def test_check_draws_good_graphs(run, model):
    result = run("check")
    assert result.exit_code == 0
    assert "── small  (no graph.yaml" in result.output
    assert "scheduler" in result.output
    assert result.output.endswith("1 checked, 0 with problems\n")


def test_check_tells_every_problem(run, model, tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "graph.yaml").write_text("version: 2\ntask: chatt\nnodes: {a: {type: tokenise}}\n")
    result = run("check", tmp_path)
    assert result.exit_code == 1
    assert "bad/graph.yaml:1: version 2 is unknown" in result.output
    assert "bad/graph.yaml:3: unknown node type `tokenise`; did you mean `tokenize`?" in result.output
    assert result.output.endswith("2 checked, 1 with problems\n")


def test_check_of_what_is_no_model_says_so(run, tmp_path):
    """A file in capitals, or of another kind: a sentence, and no traceback."""
    for name in ("FILE.GGUF", "notes.txt"):
        (tmp_path / name).write_bytes(b"GGUF")
        result = run("check", tmp_path / name)
        assert result.exit_code == 1
        assert isinstance(result.exception, SystemExit)
        assert name in result.output


@pytest.mark.parametrize("kind", ["lookup", "draft"])
def test_check_names_the_new_word_of_a_renamed_setting(run, tmp_path, kind):
    (tmp_path / "old").mkdir()
    body = f"    body:\n      drafted: {{type: {kind}, from: step, num_guesses: 5}}\n"
    graph = "version: 1\ntask: completion\nnodes:\n  generated:\n    type: scheduler\n" + body
    (tmp_path / "old" / "graph.yaml").write_text(graph)
    result = run("check", tmp_path)
    assert result.exit_code == 1
    said = "old/graph.yaml:7: unknown setting `num_guesses`: it is called `num_draft_tokens` now"
    assert said in result.output


def test_check_one_model(run, model):
    assert "── small" in run("check", model).output


def test_check_of_a_folder_without_models(run, tmp_path):
    result = run("check", tmp_path)
    assert result.exit_code == 1
    assert "holds no folder with a graph.yaml or an exported model; `braid export" in result.output


def test_check_of_no_folder(run, tmp_path):
    assert run("check", tmp_path / "none").exit_code == 2


def test_draw_by_name(run, model):
    assert run("draw", "small").output.startswith("flowchart TD\n")


def test_draw_by_folder(run, model):
    assert run("draw", model).output == run("draw", "small").output


def test_draw_of_an_unknown_name(run, model):
    result = run("draw", "smal")
    assert result.exit_code == 1
    assert "which holds: small" in result.output


def test_draw_of_a_graph_with_problems(run, model):
    (model / "graph.yaml").write_text("version: 1\n")
    result = run("draw", "small")
    assert result.exit_code == 1
    assert "small/graph.yaml:1: no task is given" in result.output


# --- new-graph, schema, export


def test_new_graph_writes_what_check_accepts(run, model):
    assert run("new-graph", model).output == f"wrote {model / 'graph.yaml'}\n"
    assert run("check", model).exit_code == 0


def test_new_graph_keeps_a_graph_that_is_there(run, model):
    (model / "graph.yaml").write_text("mine")
    result = run("new-graph", model)
    assert result.exit_code == 1
    assert "--force" in result.output
    assert (model / "graph.yaml").read_text() == "mine"


def test_new_graph_replaces_it_when_forced(run, model):
    (model / "graph.yaml").write_text("mine")
    assert run("new-graph", "--force", model).exit_code == 0
    assert "task: completion" in (model / "graph.yaml").read_text()


def test_new_graph_of_a_folder_without_an_export(run, tmp_path):
    result = run("new-graph", tmp_path)
    assert result.exit_code == 1
    assert "holds no exported language model" in result.output
    assert not (tmp_path / "graph.yaml").exists()


def test_new_graph_of_a_model_that_is_not_exported(run, tmp_path):
    (tmp_path / "model-00001-of-00002.safetensors").touch()
    assert f"`braid export {tmp_path} --name NAME`" in run("new-graph", tmp_path).output


def test_schema_is_json(run):
    assert json.loads(run("schema").output)["title"] == "Braid graph"


def test_export_is_a_process_of_its_own(run, monkeypatch):
    seen = []
    monkeypatch.setattr(subprocess, "call", lambda command: seen.append(command) or 7)
    assert run("export", "--help", "gpt2", "--out", "x").exit_code == 7
    assert seen == [[sys.executable, "-P", "-m", "tools.export", "--help", "gpt2", "--out", "x"]]


def test_a_client_command_becomes_its_program(run, monkeypatch):
    seen = []
    monkeypatch.setattr(os, "execv", lambda file, command: seen.append(command))
    run("chat", "--help", "m", "--url", "http://a")
    assert seen == [[sys.executable, "-P", "-m", "tools.chat", "--help", "m", "--url", "http://a"]]


@pytest.mark.parametrize("command", after(2, ["chat", "export", "bench", "top"]))
def test_a_command_runs_where_a_package_has_the_name_of_ours(command, tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("raise RuntimeError('not of Braid')")
    root = str(Path(cli.__file__).resolve().parents[1])
    asked = [sys.executable, "-P", "-m", "server.cli", command, "--help"]
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(asked, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_check_runs_the_decoders_in_a_process_of_their_own(run, model, monkeypatch):
    calls = []
    monkeypatch.setattr(subprocess, "call", lambda command: calls.append(command) or 1)
    result = run("check", model, "--run", "--source", "hf")
    assert calls == [[sys.executable, "-P", "-m", "tools.run_check", str(model), "--source", "hf"]]
    assert result.exit_code == 1
    assert run("check", model, "--source", "hf").exit_code == 2
