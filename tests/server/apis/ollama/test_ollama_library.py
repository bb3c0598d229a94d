"""Ollama's pull, copy, create and delete: names and folders of models, where the operator allows it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import yaml
from fake_hub import FakeHub

from pipelines.wire.messages import ModelStatus

ADMIN = {"authorization": "Bearer admin"}
FILES = {"tiny-Q4_K_M.gguf": b"GGUF" + bytes(3000)}


@pytest.fixture
def rig(make_rig, tmp_path):
    models = tmp_path / "models"
    (models / "tiny").mkdir(parents=True)
    rig = make_rig(models=models, cache=tmp_path / "braid", admin_keys=("admin",), api_keys=("key",))
    rig.scans = []

    async def rescan():
        rig.scans.append(sorted(path.name for path in models.iterdir()))
        rig.services.catalogue.models += [
            SimpleNamespace(name=name, adapters=(), task="chat") for name in rig.scans[-1] if name != "tiny"
        ]
        return True

    rig.services.client.rescan = rig.services.pulls._rescan = rescan
    rig.services.pulls._is_known = lambda name: True
    rig.services.catalogue.status = lambda name: ModelStatus(name, 1, 1, "ready", task="chat")
    rig.folder = models
    return rig


def lines(reply):
    return [json.loads(line) for line in reply.body.decode().splitlines()]


def test_a_copy_is_a_graph_that_names_the_model_and_is_deleted_again(rig):
    copied = rig.post("/api/copy", {"source": "tiny:latest", "destination": "mine:latest"}, **ADMIN)
    assert (copied.status, copied.body, rig.scans) == (200, b"", [["mine", "tiny"]])
    nodes = yaml.safe_load((rig.folder / "mine" / "graph.yaml").read_text())["nodes"]
    assert nodes == {"reply": {"type": "graph", "from": "request", "graph": "tiny"}}
    headers = {"content-type": "application/json", **ADMIN}
    deleted = rig.ask("DELETE", "/api/delete", body=b'{"model": "mine"}', headers=headers)
    assert (deleted.status, (rig.folder / "mine").exists()) == (200, False)


def test_create_makes_a_further_name(rig):
    steps = lines(rig.post("/api/create", {"model": "mine", "from": "tiny"}, **ADMIN))
    assert [step["status"] for step in steps] == ["writing manifest", "success"]
    assert (rig.folder / "mine" / "graph.yaml").is_file()


def test_a_pull_is_shown_in_ollamas_words(rig, tmp_path, monkeypatch):
    with FakeHub({"acme/tiny": FILES}) as hub:
        for name, value in hub.environment(tmp_path, HF_HUB_DOWNLOAD_TIMEOUT="60").items():
            monkeypatch.setenv(name, value)
        steps = lines(rig.post("/api/pull", {"model": "hf.co/acme/tiny"}, **ADMIN))
        assert (steps[0]["status"], steps[-1]["status"]) == ("pulling manifest", "success")
        sizes = [(step["completed"], step["total"]) for step in steps if "digest" in step]
        assert sizes[-1] == (3004, 3004)
        body = {"model": "hf.co/acme/tiny", "stream": False, "insecure": True}
        whole = rig.post("/api/pull", body, **ADMIN)
        assert whole.json == {"status": "success"}
        assert whole.headers["x-braid-ignored-fields"] == "insecure;type=true"
        failed = lines(rig.post("/api/pull", {"model": "acme/none"}, **ADMIN))
        assert "error" in failed[-1]


@pytest.mark.parametrize(
    ("path", "body", "fault"),
    [
        ("/api/copy", {"source": "none", "destination": "x"}, "model 'none' not found"),
        ("/api/copy", {"source": "tiny"}, "destination"),
        ("/api/copy", {"source": "tiny", "destination": "../x"}, "no name of a model"),
        ("/api/copy", {"source": "tiny", "destination": "tiny"}, "there already"),
        ("/api/create", {"model": "x"}, "neither 'from' or 'files' was specified"),
        ("/api/create", {"model": "x", "from": "tiny", "system": "be kind"}, "graph.yaml"),
        ("/api/pull", {}, "model is required"),
        ("/api/pull", {"model": "???"}, "???"),
    ],
)
def test_what_is_wrong(rig, path, body, fault):
    reply = rig.post(path, body, **ADMIN)
    assert (reply.status in (400, 404), fault in reply.json["error"]) == (True, True), reply.body


def test_a_model_of_the_operator_is_not_deleted(rig):
    headers = {"content-type": "application/json", **ADMIN}
    reply = rig.ask("DELETE", "/api/delete", body=b'{"name": "tiny"}', headers=headers)
    assert (reply.status, "by hand" in reply.json["error"]) == (400, True)
    assert (rig.folder / "tiny").is_dir()


def test_clients_change_nothing_unless_they_may(rig, make_rig):
    assert (
        rig.post("/api/copy", {"source": "tiny", "destination": "x"}, authorization="Bearer key").status
        == 401
    )
    reply = make_rig().post("/api/copy", {"source": "tiny", "destination": "x"})
    assert (reply.status, "changes no models" in reply.json["error"]) == (400, True)


def test_a_copy_takes_the_place_of_no_fetched_model(rig):
    fetched = rig.folder / "fetched"
    fetched.mkdir()
    (fetched / ".braid-hub.json").write_text('{"name": "acme/x", "num_bytes": 1}')
    rig.services.catalogue.models += [SimpleNamespace(name="fetched", adapters=(), task="chat")]
    for source in ("tiny", "fetched"):
        reply = rig.post("/api/copy", {"source": source, "destination": "fetched"}, **ADMIN)
        assert (reply.status, "fetched" in reply.json["error"]) == (400, True)
    assert rig.post("/api/copy", {"source": "tiny", "destination": "mine"}, **ADMIN).status == 200
    assert rig.post("/api/copy", {"source": "mine", "destination": "mine"}, **ADMIN).status == 400
    assert "graph: tiny" in (rig.folder / "mine" / "graph.yaml").read_text()


def test_copies_of_copies_name_the_model_and_no_circle(rig):
    def copy(source, destination):
        return rig.post("/api/copy", {"source": source, "destination": destination}, **ADMIN).status

    assert [copy("tiny", "a"), copy("a", "b"), copy("b", "a")] == [200, 200, 200]
    for name in ("a", "b"):
        assert "graph: tiny" in (rig.folder / name / "graph.yaml").read_text()
    (rig.folder / "tiny").rmdir()
    assert copy("a", "tiny") == 400, "the model that a name leads to is none of its own further names"


@pytest.mark.parametrize("path", ["//api/copy", "/api/copy/", "///api/copy"])
def test_further_slashes_in_front_of_a_path_open_nothing(rig, path):
    body = {"source": "tiny", "destination": "mine"}
    assert rig.post(path, body, authorization="Bearer key").status == 401
    assert rig.post(path, body, **ADMIN).status == 200
