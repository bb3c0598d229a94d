"""Models, health, version and metrics."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipelines.catalogue import ModelCard
from server.version import VERSION

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hi"}]}
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def card(name, state, problems=()):
    return ModelCard(name, 1, 1700000000, 512, state, list(problems), "chat")


def test_the_list_holds_what_is_ready_as_vllm_shows_it(rig):
    rig.services.catalogue.models.append(card("slow", "loading"))
    reply = rig.get("/v1/models").json
    assert reply["object"] == "list"
    [model] = reply["data"]
    assert model["id"] == model["root"] == "tiny"
    assert (model["object"], model["owned_by"], model["parent"]) == ("model", "braid", None)
    assert model["max_model_len"] == 512
    assert model["permission"][0]["object"] == "model_permission"


def test_a_models_name_may_contain_slashes(rig):
    rig.services.catalogue.models.append(card("OpenVINO/Qwen3-8B", "ready"))
    assert rig.get("/v3/v1/models/OpenVINO/Qwen3-8B").json["id"] == "OpenVINO/Qwen3-8B"


def test_an_unknown_model_is_a_404_with_the_nearest_name(rig):
    answer = rig.get("/v1/models/tini")
    assert answer.status == 404
    assert "did you mean `tiny`" in answer.error["message"]


def test_a_failed_model_says_why(rig):
    rig.services.catalogue.models.append(card("bad", "failed", ["graph.yaml:3: unknown node type"]))
    answer = rig.get("/v3/models/bad")
    assert answer.status == 503
    assert "graph.yaml:3" in answer.error["message"]
    assert answer.headers["retry-after"] == "30"


def test_a_loading_model_says_so(rig):
    rig.services.catalogue.models.append(card("slow", "loading"))
    assert rig.get("/v1/models/slow").status == 503


@pytest.mark.parametrize(
    ("path", "body"), [(CHAT, BODY), ("/v1/completions", {"prompt": "a"})], ids=["chat", "completions"]
)
def test_an_unknown_model_is_a_404_on_generation(rig, path, body):
    answer = rig.post(path, {**body, "model": "nope"})
    assert answer.status == 404
    assert answer.error["param"] == "model"


def test_without_a_model_the_only_one_answers(rig):
    assert rig.post(CHAT, BODY).json["model"] == "tiny"


def test_without_a_model_several_are_asked_for_by_name(rig):
    rig.services.catalogue.models.append(card("other", "ready"))
    answer = rig.post(CHAT, BODY)
    assert answer.status == 400
    assert answer.error["message"] == "`model` is required; models: tiny, other"


def test_health_is_empty_and_fine(rig):
    answer = rig.get("/health")
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("status", [None, SimpleNamespace(state="draining")])
def test_health_fails_without_an_engine(rig, status):
    rig.services.client.status = status
    assert rig.get("/health").status == 503
    assert rig.get("/v2/health/ready").status == 503
    assert rig.get("/v2/health/live").status == 200


def test_health_fails_while_no_model_is_ready(rig):
    rig.services.catalogue.models[:] = [card("slow", "loading")]
    assert rig.get("/health").status == 503


def test_an_empty_repository_is_healthy(rig):
    rig.services.catalogue.models.clear()
    assert rig.get("/health").status == 200


def test_readiness_waits_for_every_model(rig):
    rig.services.catalogue.models.append(card("slow", "loading"))
    answer = rig.get("/v2/health/ready")
    assert (answer.status, answer.json) == (503, {"ready": False})


def test_readiness_does_not_wait_for_a_failed_model(rig):
    rig.services.catalogue.models.append(card("bad", "failed"))
    assert rig.get("/v2/health/ready").json == {"ready": True}


def test_the_version_is_that_of_the_package(rig):
    assert rig.get("/version").json == {"version": VERSION}
    assert tomllib.loads(PYPROJECT.read_text())["project"]["version"] == VERSION


def test_metrics_are_prometheus_text(rig):
    answer = rig.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")


def test_a_trailing_slash_is_forgiven(rig):
    assert rig.get("/v1/models/").status == 200
