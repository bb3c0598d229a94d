"""The id of a request is where Anthropic's clients look for it: in a header of every reply, and in every error."""

from __future__ import annotations

import json

from every_case import every_case
from messages_bodies import body, script
from scripted import ScriptedPipeline, said

from pipelines.base.errors import EngineError

PATH, COUNT = "/v1/messages", "/v1/messages/count_tokens"
KEYS = {"api_keys": ("secret",)}
ERRORS = [
    (401, "POST", PATH, body(), KEYS),
    (401, "POST", COUNT, body(), KEYS),
    (400, "POST", PATH, b"{", {}),
    (400, "POST", PATH, body(max_tokens=0), {}),
    (400, "POST", COUNT, {"model": "tiny"}, {}),
    (404, "POST", PATH, body(model="none"), {}),
    (405, "GET", PATH, b"", {}),
    (413, "POST", "/v3/messages", body(system="x" * (2 << 20)), {"max_body_mb": 1}),
]


def sent(rig, method, path, given, **headers):
    data = given if isinstance(given, bytes) else json.dumps(given).encode()
    return rig.ask(method, path, body=data, headers={"content-type": "application/json", **headers})


@every_case(("status", "method", "path", "given", "settings"), ERRORS)
def test_every_error_has_it(status, method, path, given, settings, make_rig):
    rig = make_rig(**settings)
    for named in ({}, {"x-request-id": "mine-1"}):
        answer = sent(rig, method, path, given, **named)
        assert (answer.status, answer.json["type"]) == (status, "error")
        name = answer.headers["request-id"]
        assert name == answer.headers["x-request-id"] == answer.json["request_id"]
        assert name == named.get("x-request-id", name)


def test_every_reply_has_it(make_rig):
    rig = make_rig()
    for stream in (False, True):
        answer = rig.post(PATH, body(stream=stream))
        assert answer.status == 200
        assert answer.headers["request-id"] == answer.headers["x-request-id"]
    for path in ("/v1/models", "/v1/models/tiny"):
        assert "request-id" in rig.get(path, anthropic_version="2023-06-01").headers
        assert "request-id" not in rig.get(path).headers


def test_the_error_of_a_stream_has_it(make_rig):
    pipeline = ScriptedPipeline()
    for batches in (script(said("Hel"), said("", "abort")), [*script(said("Hel")), EngineError("it failed")]):
        pipeline.batches = batches
        answer = sent(make_rig(pipeline), "POST", PATH, body(stream=True))
        last = json.loads(answer.body.decode().strip().rpartition("data: ")[2])
        assert (last["type"], last["request_id"]) == ("error", answer.headers["request-id"])
