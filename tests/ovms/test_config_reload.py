"""POST /v1/config/reload with a config.json that changes, as OpenVINO Model Server answers it."""

from __future__ import annotations

import json

import httpx
import pytest
from tensor_models import write_ir
from test_served_folder import DUMMY, PATIENCE_S, ModelServer

ENTRIES = [{"config": {"name": name}} for name in ("a", "b")]
BAD_KEY = [{"config": {"name": "a", "shap": "auto"}}]
BROKEN = {
    "no JSON": ('{"model_config_list": [\n  {"config": {"name": "a"}},\n]}', "line 3 column 1"),
    "a name twice": (
        json.dumps({"model_config_list": [ENTRIES[0], *ENTRIES]}, indent=1),
        "all lists together: a (lines 5, 10)",
    ),
    "a bad key": (json.dumps({"model_config_list": BAD_KEY}), "model_config_list[0].shap: unknown key"),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    for name in ("a", "b"):
        write_ir(folder / name / "1" / "dummy.xml", DUMMY.replace("NUMBER", "1.0"))
    write(folder, ENTRIES)
    with ModelServer(folder / "config.json") as server:
        server.settled()
        yield server, folder


def write(folder, entries):
    (folder / "config.json").write_text(json.dumps({"model_config_list": entries}))


def reload(server):
    reply = httpx.post(f"{server.url}/v1/config/reload", timeout=PATIENCE_S)
    return reply.status_code, reply.json()


def states(config):
    return {name: [each["state"] for each in entry["model_version_status"]] for name, entry in config.items()}


def test_a_model_that_is_taken_out_has_ended_until_it_is_back(served):
    server, folder = served
    write(folder, ENTRIES[:1])
    status, config = reload(server)
    assert (status, states(config)) == (201, {"a": ["AVAILABLE"], "b": ["END"]})
    assert config["b"]["model_version_status"][0]["status"]["error_code"] == "OK"
    server.wait_for(lambda: httpx.get(f"{server.url}/v1/models/b").status_code == 404)
    assert states(httpx.get(f"{server.url}/v1/config").json())["b"] == ["END"]
    write(folder, ENTRIES)
    status, config = reload(server)
    assert (status, states(config)) == (201, {"a": ["AVAILABLE"], "b": ["AVAILABLE"]})


@pytest.mark.parametrize("case", BROKEN)
def test_a_config_that_cannot_be_taken_is_an_error_with_its_place(served, case):
    server, folder = served
    text, place = BROKEN[case]
    (folder / "config.json").write_text(text)
    status, reply = reload(server)
    assert status == 412
    assert reply["error"].startswith("Reloading config file failed. ")
    assert place in reply["error"]
    assert states(httpx.get(f"{server.url}/v1/config").json()) == {"a": ["AVAILABLE"], "b": ["AVAILABLE"]}
    write(folder, ENTRIES)
    assert reload(server)[0] == 200


def test_a_config_that_is_gone_is_an_error(served):
    server, folder = served
    (folder / "config.json").rename(folder / "away.json")
    status, reply = reload(server)
    (folder / "away.json").rename(folder / "config.json")
    assert status == 400
    assert reply["error"].startswith("Config file not found or cannot open.")
    assert reload(server)[0] == 200
