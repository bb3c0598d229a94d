"""Clients have models fetched: progress as events, cancel, what is allowed."""

import asyncio
import json
import re

import pytest
from fake_hub import FakeHub, Fault
from patience import PATIENCE_S

from pipelines.base.errors import RequestError, Unavailable
from server.services.pulls import PullRequest, Pulls

FILES = {"tiny-Q4_K_M.gguf": b"GGUF" + bytes(300_000), "tiny-Q8_0.gguf": b"GGUF" + bytes(9)}
ADMIN = {"authorization": "Bearer admin"}


@pytest.fixture(scope="module")
def hub():
    with FakeHub({"acme/tiny": FILES, "acme/slow": FILES, "acme/gated": FILES}) as running:
        running.gated.add("acme/gated")
        yield running


@pytest.fixture
def pulling(make_rig, hub, tmp_path, monkeypatch):
    """A server with a folder of models, whose pulls ask the fake hub."""
    for name, value in hub.environment(tmp_path, HF_HUB_DOWNLOAD_TIMEOUT="60").items():
        monkeypatch.setenv(name, value)
    (tmp_path / "models").mkdir()

    def make(**settings):
        rig = make_rig(models=tmp_path / "models", cache=tmp_path / "braid", **settings)
        known = lambda name: (tmp_path / "models" / name).is_dir()  # noqa: E731

        async def rescan():
            return True

        rig.services.pulls._rescan, rig.services.pulls._is_known = rescan, known
        return rig

    return make


def test_a_model_is_fetched_with_its_progress(pulling, tmp_path):
    rig = pulling(admin_keys=("admin",))
    answer = rig.post("/models/pull", {"model": "acme/tiny"}, **ADMIN)
    assert answer.status == 200
    *events, done = answer.events
    assert done == "[DONE]"
    assert [events[0]["status"], events[-1]["status"]] == ["resolving", "success"]
    assert events[-1]["completed"] == events[-1]["total"] == 300_004
    assert {event["digest"] for event in events if event["status"] == "verifying"} != set()
    assert (tmp_path / "models/acme/tiny/tiny-Q4_K_M.gguf").read_bytes() == FILES["tiny-Q4_K_M.gguf"]
    listed = rig.get("/models/pull", **ADMIN).json["data"]
    assert [(listed_pull["name"], listed_pull["status"]) for listed_pull in listed] == [
        ("acme/tiny", "success")
    ]


def test_a_whole_reply_without_a_stream_and_another_name(pulling, tmp_path):
    rig = pulling(admin_keys=("admin",))
    body = {"model": "hf.co/acme/tiny:q8_0", "as": "small", "stream": False}
    answer = rig.post("/models/pull", body, **ADMIN)
    assert (answer.status, answer.json["status"], answer.json["model"]) == (200, "success", "small")
    assert (tmp_path / "models/small/tiny-Q8_0.gguf").is_file()
    refused = rig.post("/models/pull", {"model": "acme/gated", "stream": False}, **ADMIN)
    assert refused.status == 422
    assert "accept the licence at" in refused.error["message"]


def test_a_worker_without_a_server_leaves_no_folder(pulling):
    settings = pulling(admin_keys=("admin",)).services.settings
    pulls = Pulls(settings, rescan=None, is_known=None)
    folder = pulls._folder()
    assert folder.is_dir()
    del pulls
    assert not folder.exists()


@pytest.mark.parametrize("name", ["small", "other"])
def test_a_model_that_cannot_be_loaded_is_fetched_all_the_same(pulling, name):
    """The engine names all models that it could not load, in one error."""
    rig = pulling(admin_keys=("admin",))

    async def rescan():
        raise Unavailable(f"{name}: it is damaged")

    rig.services.pulls._rescan = rescan
    body = {"model": "acme/tiny:q8_0", "as": "small"}
    *_, last, done = rig.post("/models/pull", body, **ADMIN).events
    assert (last["status"], done) == ("success", "[DONE]")
    own = "small is fetched and not served: small: it is damaged"
    assert last["error"] == (own if name == "small" else "")
    assert rig.post("/models/pull", {**body, "stream": False}, **ADMIN).status == 200


def test_a_pull_is_cancelled_and_resumed(pulling, hub):
    rig = pulling(admin_keys=("admin",))
    hub.faults.append(Fault("acme/slow/tiny-Q4_K_M", stall=100_000))

    async def scenario(client):
        started = client.begin_post("/models/pull", {"model": "acme/slow"}, **ADMIN)
        async with asyncio.timeout(PATIENCE_S):
            while not (events := _so_far(started.answer)) or events[-1]["status"] != "downloading":
                assert not started.task.done(), events
                await asyncio.sleep(0.05)
        cancelled = await client.ask("DELETE", f"/models/pull/{events[-1]['id']}", headers=ADMIN)
        assert cancelled.status == 200
        await asyncio.wait_for(started.task, PATIENCE_S)
        assert _so_far(started.answer)[-1]["status"] == "cancelled"
        return await client.post("/models/pull", {"model": "acme/slow"}, **ADMIN)

    again = rig.run(scenario)
    assert again.events[-2]["status"] == "success"
    first, rest = (request.range for request in hub.asked("cdn/acme/slow"))
    begin = re.fullmatch(r"bytes=(\d+)-300003", rest)
    assert first is None
    assert 0 < int(begin[1]) <= 100_000, "what was stored is not asked for again"


def _so_far(answer):
    blocks = answer.body.decode().split("\n\n")[:-1]
    return [json.loads(each[6:]) for each in blocks if each.startswith("data: {")]


def test_nothing_is_fetched_without_admin_keys_or_beyond_the_list(pulling):
    rig = pulling()
    assert rig.post("/models/pull", {"model": "acme/tiny"}).status == 404
    rig = pulling(admin_keys=("admin",))
    assert rig.post("/models/pull", {"model": "acme/tiny"}).status == 401
    assert rig.post("/models/pull", {"model": "tiny"}, **ADMIN).status == 400
    assert rig.post("/models/pull", {"model": "acme/tiny", "as": "../x"}, **ADMIN).status == 400
    assert rig.ask("DELETE", "/models/pull/0000", headers=ADMIN).status in (404, 401)
    rig = pulling(pull=("acme/*",))
    assert rig.post("/models/pull", {"model": "other/tiny"}).status == 400
    assert rig.post("/models/pull", {"model": "https://example.com/x.gguf"}).status == 400
    assert rig.post("/models/pull", {"model": "acme/tiny", "stream": False}).status == 200


@pytest.mark.parametrize("setting", ["pull_gb", "pull_cache_gb"])
def test_the_bounds_of_a_disk(pulling, setting):
    rig = pulling(admin_keys=("admin",), **{setting: 0.0001})
    answer = rig.post("/models/pull", {"model": "acme/tiny", "stream": False}, **ADMIN)
    assert answer.status == 422
    assert f"BRAID_{setting.upper()} allows" in answer.error["message"]


@pytest.mark.parametrize(
    ("patterns", "body", "is_allowed"),
    [
        (("acme/*",), {"model": "acme/x", "hub": "modelscope"}, False),
        (("acme/*",), {"model": "modelscope.cn/acme/x"}, False),
        (("modelscope:acme/*",), {"model": "modelscope:acme/x"}, True),
        (("modelscope:acme/*",), {"model": "acme/x"}, False),
        (("acme/*",), {"model": "acme/x", "revision": "refs/pr/1"}, False),
        (("acme/*",), {"model": "acme/x", "revision": "0123abcd"}, False),
        (("*",), {"model": "acme/x", "revision": "refs/pr/1", "hub": "modelscope"}, True),
        (("*/tiny",), {"model": "evil/x:a/tiny"}, False),
        (("acme/x:q8*",), {"model": "acme/x:q8_0"}, True),
        (("https://*.acme.org/*.gguf",), {"model": "https://evil.org/.acme.org/x.gguf"}, False),
        (("https://*.acme.org/*.gguf",), {"model": "https://evil.org?.acme.org/x.gguf"}, False),
        (("https://*.acme.org/*.gguf",), {"model": "https://dl.acme.org/a/x.gguf"}, True),
        (("*",), {"model": "https://[x/m.gguf"}, False),
    ],
)
def test_what_patterns_allow(pulling, patterns, body, is_allowed):
    rig = pulling(pull=patterns)
    request = PullRequest(body["model"], hub=body.get("hub"), revision=body.get("revision"))
    if is_allowed:
        rig.services.pulls.check_allowed(request)
        return
    with pytest.raises(RequestError):
        rig.services.pulls.check_allowed(request)


def test_a_long_id(pulling):
    rig = pulling(admin_keys=("admin",))
    assert rig.get(f"/models/pull/{'a' * 300}", **ADMIN).status == 404
