"""Folders with faults that only workers would meet, beside good ones, on a running server."""

from __future__ import annotations

import shutil
import subprocess
import sys

import httpx
import openai
import pytest
from paced_model import write_model
from patience import PATIENCE_S
from server_process import ServerProcess, chat

NAMES_BAD = "version: 1\ntask: chat\nnodes:\n  reply: {type: graph, graph: bad-template, from: request}\n"
UNCOMPILED = "{% for message in messages %}"


def write_bad(models):
    """Three models that cannot be served, and one that names one of them."""
    for name in ("bad-template", "bad-tokenizer", "endless-cache"):
        write_model(models / name)
    (models / "bad-template" / "chat_template.jinja").write_text(UNCOMPILED)
    (models / "bad-tokenizer" / "tokenizer.json").write_text('{"version": "1.0", "trunc')
    graph = models / "endless-cache" / "graph.yaml"
    graph.write_text(graph.read_text().replace("memory_gb: 0.01", "memory_gb: .inf"))
    (models / "names-bad").mkdir()
    (models / "names-bad" / "graph.yaml").write_text(NAMES_BAD)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    models = tmp_path_factory.mktemp("bad") / "models"
    write_model(models / "fake")
    write_bad(models)
    with ServerProcess(models) as server:
        server.models = models
        server.all_ready()
        yield server


def get(server, path):
    return httpx.get(server.url + path, timeout=PATIENCE_S)


def reload(server):
    return httpx.post(f"{server.url}/v1/config/reload", timeout=PATIENCE_S)


def states(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        return {model.id: model.status["value"] for model in client.models.list()}


FAILED = ("bad-template", "bad-tokenizer", "endless-cache", "names-bad")


def is_ready(server):
    return all(get(server, path).status_code == 200 for path in ("/v2/health/ready", "/health"))


def test_each_list_says_that_they_failed_and_why(served):
    assert is_ready(served)
    assert states(served) == {"fake": "loaded"} | dict.fromkeys(FAILED, "failed")
    config = get(served, "/v1/config").json()
    index = httpx.post(f"{served.url}/v2/repository/index", timeout=PATIENCE_S).json()
    reasons = {entry["name"]: entry["reason"] for entry in index}
    for name, word in (
        ("bad-template", "compile"),
        ("bad-tokenizer", "tokenizer"),
        ("endless-cache", "finite"),
    ):
        (version,) = config[name]["model_version_status"]
        assert version["status"]["error_code"] == "FAILED_PRECONDITION"
        asked = httpx.post(f"{served.url}/v1/chat/completions", json=chat(2, model=name), timeout=PATIENCE_S)
        assert asked.status_code == 503
        said = version["status"]["error_message"], reasons[name], asked.text, served.log()
        assert all(word in text for text in said), said
    banner = [line.split() for line in served.log().splitlines() if line.startswith("  ")]
    assert {line[0]: line[1] for line in banner if line[0] in (*FAILED[:3], "fake")} == {
        "fake": "ready"
    } | dict.fromkeys(FAILED[:3], "failed")


def test_check_says_the_same(served):
    command = [sys.executable, "-m", "server.cli", "check", str(served.models)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "5 checked, 3 with problems" in done.stdout
    assert done.stderr == "CPU kernels: off, by BRAID_KERNELS\n"


def test_a_bad_folder_comes_is_mended_and_breaks_again(served):
    """The server is ready all the time, and the model that was loaded serves until its folder is right again."""
    folder = served.models / "new"
    write_model(folder)
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").write_text(UNCOMPILED)
    refused = reload(served)
    assert refused.status_code == 503
    assert "new: " in refused.text
    assert "compile" in refused.text
    assert states(served)["new"] == "failed"
    assert is_ready(served)
    (folder / "chat_template.jinja").write_text(template)
    assert "new: " not in reload(served).text
    served.wait_for(lambda: states(served)["new"] == "loaded")
    served.ready("new")
    (folder / "chat_template.jinja").write_text(f"Longer. {UNCOMPILED}")
    refused = reload(served)
    assert (refused.status_code, "new: " in refused.text) == (503, True)
    served.ready("new")
    assert is_ready(served)
    shutil.rmtree(folder)
    reload(served)
    served.wait_for(lambda: "new" not in states(served))
