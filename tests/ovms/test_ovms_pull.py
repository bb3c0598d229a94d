"""A script that was written for OpenVINO Model Server's --pull and --source_model."""

import json
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_hub import FakeHub
from graph_texts import TEMPLATE

from pipelines.repository.model_folders import scan
from server import cli, ovms_command

CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 9}
LLM = {
    "openvino_model.xml": b"{}",
    "openvino_model.bin": b"{}",
    "tokenizer.json": b"{}",
    "chat_template.jinja": TEMPLATE.encode(),
    "config.json": json.dumps(CONFIG).encode(),
}
NAME = "OpenVINO/tiny-int4-ov"


@pytest.fixture(scope="module")
def hub():
    with FakeHub({NAME: LLM, "acme/tiny-GGUF": {"t-Q4_K_M.gguf": b"4", "t-Q8_0.gguf": b"8"}}) as running:
        yield running


@pytest.fixture
def ovms(monkeypatch, tmp_path, hub):
    """Runs the command; `ovms.started` are the settings of the server that it starts."""
    for name, value in hub.environment(tmp_path, BRAID_CACHE=str(tmp_path / "braid")).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("API_KEY", raising=False)
    monkeypatch.delenv("OVMS_MODEL_REPOSITORY_PATH", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def command(*arguments):
        return CliRunner().invoke(cli.main, ["ovms", *map(str, arguments)])

    command.started = {}
    monkeypatch.setattr(
        ovms_command, "become_gunicorn", lambda environment, options: command.started.update(environment)
    )
    return command


def test_pull_and_then_serve(ovms, tmp_path, hub):
    models = tmp_path / "models"
    task = [
        "--task",
        "text_generation",
        "--max_num_seqs",
        8,
        "--tool_parser",
        "hermes3",
        "--target_device",
        "CPU",
    ]
    pull = ["--pull", "--source_model", NAME, "--model_repository_path", models, *task]
    done = ovms(*pull)
    assert done.exit_code == 0, done.output
    assert ovms.started == {}
    folder = models / NAME
    assert {path.name for path in folder.iterdir()} >= {*LLM, "graph.pbtxt"}
    graph = scan(models)[0].graph_text()
    assert "max_sequences: 8" in graph
    assert "tools: hermes" in graph
    num_requests = len(hub.log)
    assert f"{folder} is there already" in ovms(*pull).output
    assert len(hub.log) == num_requests
    assert ovms(*pull, "--overwrite_models").exit_code == 0
    assert len(hub.log) > num_requests
    assert ovms("--list_models", "--model_repository_path", models).output == f"{NAME}\n"


def test_a_model_that_cannot_be_fetched_again_stays(ovms, tmp_path, hub, monkeypatch):
    models = tmp_path / "models"
    pull = ["--pull", "--source_model", NAME, "--model_repository_path", models, "--task", "text_generation"]
    assert ovms(*pull).exit_code == 0
    files = sorted((models / NAME).iterdir())
    monkeypatch.delitem(hub.repos, NAME)
    assert ovms(*pull, "--overwrite_models").exit_code == 1
    assert sorted((models / NAME).iterdir()) == files
    assert [path.name for path in (models / NAME).parent.iterdir()] == ["tiny-int4-ov"]


def test_pull_and_start(ovms, tmp_path):
    done = ovms("--source_model", NAME, "--model_repository_path", tmp_path / "models", "--rest_port", 8000)
    assert done.exit_code == 0, done.output
    config = json.loads(Path(ovms.started["BRAID_MODELS"]).read_text())
    entry = config["model_config_list"][0]["config"]
    assert (entry["name"], entry["base_path"]) == (NAME, str(tmp_path / "models" / NAME))
    ovms(
        "--source_model",
        NAME,
        "--model_repository_path",
        tmp_path / "models",
        "--rest_port",
        8000,
        "--model_name",
        "llm",
    )
    config = json.loads(Path(ovms.started["BRAID_MODELS"]).read_text())
    assert config["model_config_list"][0]["config"]["name"] == "llm"


def test_one_gguf_file(ovms, tmp_path):
    models = tmp_path / "models"
    flags = [
        "--source_model",
        "acme/tiny-GGUF",
        "--model_repository_path",
        models,
        "--gguf_filename",
        "t-Q8_0.gguf",
    ]
    assert ovms("--pull", *flags).exit_code == 0
    assert [path.name for path in (models / "acme" / "tiny-GGUF").glob("*.gguf")] == ["t-Q8_0.gguf"]


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (["--task", "image_generation"], "--task image_generation is not served"),
        (["--task", "rerank", "--max_num_seqs", "4"], "--max_num_seqs goes with --task text_generation"),
        (["--max_num_seqs", "4"], "--max_num_seqs goes with --task text_generation"),
    ],
)
def test_flags_that_do_not_go_together(ovms, tmp_path, flags, what):
    source = ["--pull", "--source_model", NAME, "--model_repository_path", tmp_path / "models"]
    assert what in ovms(*source, *flags).output
    assert not (tmp_path / "models").exists()
