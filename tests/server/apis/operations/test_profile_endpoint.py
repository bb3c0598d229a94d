"""GET models/{name}/profile: what the engine host tells, and why it does not."""

from __future__ import annotations

import math

import pytest

from pipelines.base.errors import Unavailable
from pipelines.telemetry.node_work import NodeWork, count_nodes
from pipelines.telemetry.step_profile import Phase, Steps
from pipelines.wire.messages import Profiled
from pipelines.worker.model_table import ModelCard

LOGITS = Phase("body.logits", "model", 3.0, 0.01, 0.02, 0.03)
DECODING = Steps("decoding", 100, 800, 400, 400, 50, Phase("step", "", 4.0, 0.04, 0.05, 0.06), [LOGITS])
TOLD = Profiled(1, {"generated": [DECODING]}, {"idle": 6.0, "steps": 4.0})


@pytest.fixture
def told(rig):
    rig.services.client.profiled = TOLD
    return rig


@pytest.mark.parametrize("prefix", ["/v1", "/v3", "/v3/v1"])
def test_a_profile_is_steps_by_phase_and_the_hosts_time(told, prefix):
    reply = told.get(f"{prefix}/models/tiny/profile").json
    assert (reply["object"], reply["model"]) == ("profile", "tiny")
    ((engine,), host) = (reply["engines"], reply["host"])
    (steps,) = engine["kinds"]
    assert (engine["node"], steps["kind"], steps["steps"], steps["tokens"]) == (
        "generated",
        "decoding",
        100,
        800,
    )
    assert (steps["sequences"], steps["output_tokens"], steps["recent"]) == (400, 400, 50)
    assert steps["step"]["mean_s"] == 0.04
    assert steps["phases"] == [
        {
            "name": "body.logits",
            "node": "model",
            "seconds": 3.0,
            "mean_s": 0.03,
            "p50_s": 0.01,
            "p99_s": 0.02,
            "max_s": 0.03,
        }
    ]
    assert host == {
        "seconds": 10.0,
        "phases": [{"name": "idle", "seconds": 6.0}, {"name": "steps", "seconds": 4.0}],
    }


def test_every_node_of_the_graph_that_works_in_a_worker_is_there(told):
    told.services.catalogue.models.append(ModelCard("timed", 1, 0, 512, "ready", [], "chat"))
    count_nodes("timed", {"tokens": worked(0.5)})
    before = {
        node_times["node"]: node_times for node_times in told.get("/v1/models/timed/profile").json["worker"]
    }
    assert list(before) == ["prompt", "tokens", "generated", "text", "reply"]
    count_nodes("timed", {"tokens": worked(0.25)})
    after = {
        node_times["node"]: node_times for node_times in told.get("/v1/models/timed/profile").json["worker"]
    }
    assert after["tokens"]["runs"] == before["tokens"]["runs"] + 1
    assert after["tokens"]["seconds"] == pytest.approx(before["tokens"]["seconds"] + 0.25)
    assert after["tokens"]["mean_s"] == pytest.approx(after["tokens"]["seconds"] / after["tokens"]["runs"])
    assert after["reply"] == {"node": "reply", "runs": 0, "seconds": 0.0, "mean_s": None}


def worked(seconds):
    work = NodeWork()
    work.ran(1.0, 1.0 + seconds)
    return work


def test_a_name_with_slashes_has_a_profile_and_a_card(told):
    told.services.catalogue.models.append(ModelCard("OpenVINO/Qwen3-8B", 1, 0, 512, "ready", [], "chat"))
    assert told.get("/v3/models/OpenVINO/Qwen3-8B/profile").json["model"] == "OpenVINO/Qwen3-8B"
    assert told.get("/v3/models/OpenVINO/Qwen3-8B").json["id"] == "OpenVINO/Qwen3-8B"


def test_the_words_for_an_unknown_model_are_its_dialects(told):
    said = "The model `tini` does not exist"
    answer = told.get("/v1/models/tini/profile")
    assert (answer.status, answer.error["param"]) == (404, "model")
    assert answer.error["message"].startswith(said)
    answer = told.get("/v3/models/tini/profile")
    assert answer.status == 404
    assert answer.json["error"].startswith(said)


def test_a_model_that_is_called_profile_is_no_profile(told):
    told.services.catalogue.models.append(ModelCard("profile", 1, 0, 512, "ready", [], "chat"))
    assert told.get("/v1/models/profile").json["id"] == "profile"
    assert told.get("/v1/models/profile/profile").json["model"] == "profile"


def test_a_model_that_loads_has_none_yet(told):
    told.services.catalogue.models.append(ModelCard("slow", 1, 0, 512, "loading", [], None))
    assert told.get("/v1/models/slow/profile").status == 503


@pytest.mark.parametrize(("query", "recent_s"), [("", math.inf), ("?seconds=2.5", 2.5)])
def test_percentiles_are_of_so_many_seconds(told, query, recent_s):
    assert told.get(f"/v3/models/tiny/profile{query}").status == 200
    assert told.services.client.recent_s == recent_s


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "soon", ""])
def test_seconds_must_be_some(told, seconds):
    answer = told.get(f"/v1/models/tiny/profile?seconds={seconds}")
    assert (answer.status, answer.error["param"]) == (400, "seconds")


def test_an_engine_that_does_not_answer_is_a_503(rig):
    rig.services.client.profiled = Unavailable("the engine is in a long step; try again")
    answer = rig.get("/v3/models/tiny/profile")
    assert (answer.status, answer.headers["retry-after"]) == (503, "2")
    assert "long step" in answer.json["error"]


def test_a_profile_needs_a_key(make_rig):
    assert make_rig(api_keys=("secret",)).get("/v3/models/tiny/profile").status == 401
