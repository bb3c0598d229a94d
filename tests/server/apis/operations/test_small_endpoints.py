"""Models, health, version and metrics."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pipelines.base.errors import MissingField
from pipelines.worker.model_choice import CLASSIFICATION, READING, SCORING, TEXT, name_without_one
from pipelines.worker.model_table import ModelCard
from server.base.version import VERSION

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hi"}]}


def card(name, state, problems=()):
    return ModelCard(name, 1, 1700000000, 512, state, list(problems), "chat")


def test_the_list_holds_all_models_as_vllm_shows_them_and_their_states_in_llama_cpps_words(rig):
    states = ("unloaded", "loading", "ready", "unloading", "failed")
    rig.services.catalogue.models += [card(f"m-{state}", state) for state in states]
    reply = rig.get("/models").json
    assert reply["object"] == "list"
    model, *others = reply["data"]
    assert [model_card["status"]["value"] for model_card in others] == [
        "unloaded",
        "loading",
        "loaded",
        "unloading",
        "failed",
    ]
    assert reply["data"] == rig.get("/v1/models").json["data"] == rig.get("/v3/models").json["data"]
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
    answer = rig.get("/v1/models/bad")
    assert answer.status == 503
    assert "graph.yaml:3" in answer.error["message"]
    assert answer.headers["retry-after"] == "30"


def test_an_unloaded_model_is_described(rig):
    rig.services.catalogue.models.append(card("idle", "unloaded"))
    assert rig.get("/v1/models/idle").json["status"] == {"value": "unloaded"}


def test_a_loading_model_says_so(rig):
    rig.services.catalogue.models.append(card("slow", "loading"))
    assert rig.get("/v1/models/slow").status == 503


def test_a_load_that_knows_how_far_it_is_says_so(rig):
    slow = replace(card("slow", "loading"), doing="converting slow.gguf", share=0.42)
    rig.services.catalogue.models.append(slow)
    (_, shown) = rig.get("/v1/models").json["data"]
    assert shown["status"] == {"value": "loading", "doing": "converting slow.gguf", "share": 0.42}
    message = rig.get("/v1/models/slow").error["message"]
    assert message == "The model `slow` is loading: converting slow.gguf, 42 %"
    (_, listed) = rig.post("/v2/repository/index", {}).json
    assert (listed["state"], listed["reason"]) == ("LOADING", "converting slow.gguf, 42 %")
    (version,) = rig.get("/v1/config").json["slow"]["model_version_status"]
    said = {"error_code": "OK", "error_message": "converting slow.gguf, 42 %"}
    assert (version["state"], version["status"]) == ("LOADING", said)


@pytest.mark.parametrize(
    ("path", "body"), [(CHAT, BODY), ("/v1/completions", {"prompt": "a"})], ids=["chat", "completions"]
)
def test_an_unknown_model_is_a_404_on_generation(rig, path, body):
    answer = rig.post(path, {**body, "model": "nope"})
    assert answer.status == 404
    assert answer.error["param"] == "model"


@pytest.mark.parametrize(
    ("tasks", "ability", "found"),
    [
        ({"v": "embed", "r": "rerank"}, SCORING, "r"),
        ({"v": "embed", "w": "embed", "c": "chat"}, SCORING, None),
        ({"v": "embed", "k": "classify", "r": "rerank"}, CLASSIFICATION, "k"),
        ({"c": "chat", "v": "embed"}, READING, "c"),
        ({"z": "chat", "a": "completion"}, TEXT, "z"),
    ],
)
def test_without_a_name_the_model_is_the_one_that_is_made_for_it(tasks, ability, found):
    cards = [ModelCard(name, 1, 1, 9, "ready", [], task) for name, task in tasks.items()]
    if found is None:
        with pytest.raises(MissingField):
            name_without_one(cards, None, ability)
    else:
        assert name_without_one(cards, None, ability) == found


def test_without_a_model_the_only_one_answers(rig):
    assert rig.post(CHAT, BODY).json["model"] == "tiny"


MODELLESS = [
    ("POST", CHAT, BODY),
    ("POST", "/v1/completions", {"prompt": "a"}),
    ("POST", "/v1/messages", {**BODY, "max_tokens": 5}),
    ("POST", "/v1/responses", {"input": "a"}),
    ("POST", "/v1/responses/input_tokens", {"input": "a"}),
    ("POST", "/tokenize", {"prompt": "a"}),
    ("POST", "/detokenize", {"tokens": [97]}),
    ("POST", "/invocations", {"prompt": "a"}),
    ("GET", "/tokenizer_info", None),
]


@pytest.mark.parametrize(("method", "path", "body"), MODELLESS, ids=[path for _, path, _ in MODELLESS])
@pytest.mark.parametrize("settings", [{}, {"default_model": "other"}], ids=["first", "set"])
def test_without_a_model_the_default_one_answers_on_every_path(make_rig, method, path, body, settings):
    rig = make_rig(**settings)
    asked = []
    get = rig.services.catalogue.get
    rig.services.catalogue.get = lambda name: asked.append(name) or get(name)
    for name, task in (("another", "embed"), ("other", "chat"), ("vectors", "embed")):
        rig.services.catalogue.models.append(replace(card(name, "ready"), task=task))
    headers = {"content-type": "application/json"} if body else {}
    answer = rig.ask(method, path, body=json.dumps(body).encode() if body else b"", headers=headers)
    assert asked == [settings.get("default_model", "tiny")]
    no_text = ("has no tokenizer", "does not chat")
    assert answer.status == 200 or any(fault in answer.error["message"] for fault in no_text)


def test_a_default_model_that_is_not_there_is_named(make_rig):
    rig = make_rig(default_model="gone")
    rig.services.catalogue.models.append(card("other", "ready"))
    answer = rig.post(CHAT, BODY)
    assert (answer.status, answer.error["message"]) == (
        404,
        "The model `gone` does not exist; models: tiny, other",
    )


def test_what_the_default_model_cannot_do_is_asked_for_by_name(rig):
    for name in ("one", "two"):
        rig.services.catalogue.models.append(replace(card(name, "ready"), task="embed"))
    answer = rig.post("/v1/embeddings", {"input": "a"})
    assert (answer.status, answer.error["message"]) == (400, "`model` is required; models: one, two")


def test_health_is_fine(rig):
    for path in ("/health", "/v1/health"):
        answer = rig.get(path)
        assert (answer.status, answer.json) == (200, {"status": "ok"})


@pytest.mark.parametrize("status", [None, SimpleNamespace(state="draining")])
def test_health_fails_without_an_engine(rig, status):
    rig.services.client.status = status
    answer = rig.get("/health")
    assert (answer.status, answer.json) == (503, {"status": "unavailable"})
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


def test_the_version_is_served(rig):
    assert rig.get("/version").json == {"version": VERSION}
    assert rig.get("/openapi.json").json["info"]["version"] == VERSION


def test_metrics_are_prometheus_text(few_metrics, rig):
    answer = rig.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")


def test_a_trailing_slash_is_forgiven(rig):
    assert rig.get("/v1/models/").status == 200


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
def test_a_ping_is_the_health(rig, method):
    assert rig.ask(method, "/ping").status == 200
    rig.services.client.status = None
    answer = rig.ask(method, "/ping")
    assert (answer.status, answer.headers["retry-after"]) == (503, "2")


@pytest.mark.parametrize("path", ["/health", "/ping", "/v2/health/live", "/v2/health/ready"])
def test_a_probe_may_ask_for_the_head_only(rig, path):
    answer = rig.ask("HEAD", path)
    assert (answer.status, answer.body) == (200, b"")


def test_the_load_is_what_was_admitted(rig):
    assert rig.get("/load").json == {"server_load": 0}
    leave = rig.services.admission.enter()
    assert rig.get("/load").json == {"server_load": 1}
    leave()
    assert rig.get("/load").json == {"server_load": 0}


@pytest.mark.parametrize("path", ["/health", "/v1/health", "/ping", "/load", "/version", "/metrics"])
def test_what_says_little_needs_no_key(few_metrics, make_rig, path):
    assert make_rig(api_keys=("secret",)).get(path).status == 200


@pytest.mark.parametrize(
    ("body", "kind"), [(BODY, "chat.completion"), ({"prompt": "a"}, "text_completion")], ids=["chat", "text"]
)
def test_an_invocation_is_what_its_body_says(rig, body, kind):
    assert rig.post("/invocations", body).json["object"] == kind


def test_an_invocation_may_be_a_stream(rig):
    answer = rig.post("/invocations", {**BODY, "stream": True})
    assert answer.events[-1] == "[DONE]"


@pytest.mark.parametrize("body", [{"zz": 1}, b"{", b"[]"], ids=str)
def test_an_invocation_of_nothing_is_refused(rig, body):
    assert rig.post("/invocations", body).status == 400


def test_an_invocation_takes_one_place(make_rig):
    rig = make_rig(max_concurrency=1)
    assert rig.post("/invocations", BODY).status == 200


@pytest.mark.parametrize("header", [{"authorization": "Bearer secret"}, {"x-api-key": "secret"}], ids=str)
def test_a_key_may_come_in_either_header(make_rig, header):
    assert make_rig(api_keys=("other", "secret")).ask("GET", "/v1/models", headers=header).status == 200


@pytest.mark.parametrize(
    "header", [{}, {"authorization": "secret"}, {"x-api-key": "Bearer secret"}, {"x-api-key": ""}], ids=str
)
def test_a_key_must_be_one(make_rig, header):
    assert make_rig(api_keys=("secret",)).ask("GET", "/v1/models", headers=header).status == 401


def test_the_prefix_cache_is_reset(rig):
    answer = rig.post("/reset_prefix_cache", {})
    assert (answer.status, answer.json) == (200, {"success": True})
    assert rig.services.client.num_resets == 1


def test_with_admin_keys_they_alone_reset_the_prefix_cache(make_rig):
    rig = make_rig(api_keys=("ann",), admin_keys=("root",))
    assert rig.post("/reset_prefix_cache", {}, Authorization="Bearer ann").status == 401
    assert rig.services.client.num_resets == 0
    assert rig.post("/reset_prefix_cache", {}, Authorization="Bearer root").status == 200
    assert rig.services.client.num_resets == 1


@pytest.mark.parametrize("path", ["/health", "/ping", "/v2/health/ready"])
@pytest.mark.parametrize(
    ("engines", "silent", "status"),
    [
        ((), (), 200),
        ((), ("heartbeat",), 503),
        (("2",), ("heartbeat-0",), 200),
        (("2",), ("heartbeat-0", "heartbeat-1"), 503),
    ],
)
def test_a_server_whose_hosts_are_silent_is_not_ready(make_rig, tmp_path, path, engines, silent, status):
    """A host that is stopped or hangs lives, and has its connections."""
    for name in ("heartbeat", "heartbeat-0", "heartbeat-1"):
        (tmp_path / name).touch()
    for name in silent:
        os.utime(tmp_path / name, (0, 0))
    rig = make_rig(engine_socket=tmp_path / "engine.sock", engines=engines)
    answer = rig.get(path)
    assert answer.status == status
    assert ("retry-after" in answer.headers) == (status == 503)
    assert rig.get("/v2/health/live").status == 200
