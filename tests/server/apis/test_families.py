"""Families of endpoints: BRAID_APIS, and the dialects of paths."""

from __future__ import annotations

from itertools import combinations

import pytest

from server.apis.routes import FAMILIES, every_api
from server.base.api_names import API_NAMES
from server.base.environment import SettingsError, read_settings

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
ALWAYS = {"operations", "status", "v1"}


def test_every_name_has_paths_and_every_family_a_name():
    assert {name for name, _ in FAMILIES} - ALWAYS == {*API_NAMES}
    assert [name for name, _ in FAMILIES] == [api.name for api in every_api()]


@pytest.mark.parametrize(
    ("given", "on"),
    [
        ("", (*API_NAMES,)),
        ("cohere openai", ("openai", "cohere")),
        (",".join(f"-{name}" for name in API_NAMES if name != "kserve"), ("kserve",)),
    ],
)
def test_what_is_on(given, on):
    assert read_settings({"BRAID_APIS": given}).apis == on


@pytest.mark.parametrize(
    ("given", "fault"),
    [("antropic", "did you mean anthropic?"), ("openai,-kserve", "either the APIs that are on")],
)
def test_names_that_are_wrong(given, fault):
    with pytest.raises(SettingsError, match=fault):
        read_settings({"BRAID_APIS": given})


def test_what_is_off_is_not_there(make_rig):
    rig = make_rig(apis="openai,batches")
    assert rig.chat().status == 200
    for path in ("/v1/messages", "/v3/chat/completions", "/v2/models", "/v1/embed"):
        reply = rig.post(path, CHAT)
        assert (reply.status, reply.error["code"]) == (404, 404), path
    assert "/v1/chat" in rig.post("/v3/chat/completions", CHAT).error["message"]
    assert {"/v1/completions", "/health"} < (told := rig.get("/openapi.json").json["paths"].keys())
    assert not [path for path in told if path.startswith(("/v3", "/v1/messages"))]


@pytest.mark.breadth
@pytest.mark.parametrize("pair", [*combinations(API_NAMES, 2)], ids="-".join)
def test_without_two_families_their_paths_are_not_there_and_the_rest_is(make_rig, pair):
    rig = make_rig(apis=" ".join(f"-{name}" for name in pair))
    left = {path for api in every_api() if api.name not in pair for path in (*api.root, *api.prefixed)}

    async def scenario(client):
        for api in every_api():
            if api.name in pair:
                for path in {*api.root} - left - {"/"}:
                    answer = await client.post(path.replace("{name}", "x"), {})
                    assert answer.status in (404, 405), path
                    assert answer.json["error"], path
        assert (await client.get("/v1/models")).status == 200
        assert (await client.get("/openapi.json")).status == 200

    rig.run(scenario)


def test_v1_speaks_ovms(make_rig):
    rig = make_rig(v1="ovms")
    reply = rig.post("/v1/chat/completions", {**CHAT, "temperature": 3})
    assert (reply.status, reply.json) == (400, {"error": "temperature out of range(0.0, 2.0)"})
    assert rig.post("/v1/chat/completions", b"{").status == 412
    assert rig.post("/v1/rerank", {"model": "tiny"}).json["error"]
    assert rig.post("/v1/messages", {}).json["type"] == "error"
