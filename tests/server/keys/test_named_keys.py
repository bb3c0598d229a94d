"""Named keys of a file: what each may use, how much of it, and what it has used."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from asgi_socket import AsgiSocket
from click.testing import CliRunner
from patience import until
from scripted import ScriptedPipeline

from pipelines.telemetry import deferred
from pipelines.telemetry.request_timing import RequestTiming
from pipelines.telemetry.request_trace import CallTrace, RequestTrace
from pipelines.worker.model_table import ModelCard
from server.apis.usage.usage_log import UsageLog
from server.app import batch_worker
from server.base.settings import Settings
from server.cli import main
from server.keys import key_file
from server.keys.key_file import KeyFile, KeyFileError, NamedKey, digest_of, parse_keys
from server.keys.limits import KeyLimited, KeyLimits, duration

CHAT = "/v1/chat/completions"
BODY = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
SHAPES = [
    (CHAT, BODY, lambda error: error["error"]["code"] == 429),
    ("/v1/completions", {"model": "tiny", "prompt": "a"}, lambda error: error["error"]["code"] == 429),
    ("/v1/messages", BODY | {"max_tokens": 2}, lambda error: error["error"]["type"] == "rate_limit_error"),
    ("/v1/responses", {"model": "tiny", "input": "a"}, lambda error: error["error"]["code"] == 429),
    ("/api/chat", BODY, lambda error: "per minute" in error["error"]),
    (
        "/v1beta/models/tiny:generateContent",
        {"contents": [{"parts": [{"text": "a"}]}]},
        lambda error: error["error"]["status"] == "RESOURCE_EXHAUSTED",
    ),
    ("/completion", {"prompt": "a"}, lambda error: error["error"]["code"] == 429),
    ("/embed", {"inputs": "a"}, lambda error: error["error_type"] == "overloaded"),
    ("/v2/models/tiny/generate", {"text_input": "a"}, lambda error: "per minute" in str(error["error"])),
    ("/v3/chat/completions", BODY, lambda error: "per minute" in error["error"]),
]


def entry(name, **more):
    digest = digest_of(f"key-of-{name}")
    return f"- {{name: {name}, digest: {digest}, " + ", ".join(f"{k}: {v}" for k, v in more.items()) + "}\n"


def sent(name):
    return {"Authorization": f"Bearer key-of-{name}"}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "keys.yaml"
    path.write_text(
        entry("ann", requests_per_minute=2) + entry("ben", models="[small*]") + entry("root", admin="true")
    )
    return path


def test_headers_say_what_is_left_as_openai_does_and_an_error_when_to_come_again(make_rig, file):
    rig = make_rig(keys_file=file)
    first, second, third = (rig.post(CHAT, BODY, **sent("ann")) for _ in range(3))
    assert [answer.status for answer in (first, second, third)] == [200, 200, 429]
    assert first.headers["x-ratelimit-limit-requests"] == "2"
    assert [answer.headers["x-ratelimit-remaining-requests"] for answer in (first, second, third)] == [*"100"]
    assert 0 < int(third.headers["retry-after"]) <= 30
    assert third.headers["x-ratelimit-reset-requests"].endswith("s")
    assert "x-ratelimit-limit-tokens" not in first.headers
    assert rig.services.admission.num_inside == 0
    assert rig.post(CHAT, BODY | {"model": "small"}, **sent("ben")).status == 404


def test_a_stream_has_the_headers_too(make_rig, file):
    answer = make_rig(keys_file=file).post(CHAT, BODY | {"stream": True}, **sent("ann"))
    assert answer.headers["x-ratelimit-remaining-requests"] == "1"
    assert answer.events[-1] == "[DONE]"


def test_each_message_of_a_websocket_counts(make_rig, file):
    rig = make_rig(keys_file=file)
    event = {"type": "response.create", "model": "tiny", "input": "a"}

    async def scenario(client):
        socket = AsgiSocket(rig.app, "/v1/responses", authorization="Bearer key-of-ann")
        async with socket:
            ends = []
            for _ in range(3):
                socket.say(event)
                ends += (await socket.until("response.completed", "error"))[-1:]
        return ends

    first, second, third = rig.run(scenario)
    assert [event["type"] for event in (first, second)] == ["response.completed"] * 2
    assert (third["type"], third["status"]) == ("error", 429)


def test_lines_of_batches_count_and_wait_where_requests_are_refused(make_rig, file):
    rig = make_rig(keys_file=file)
    (ann, ben, *_) = parse_keys(file.read_text())

    async def scenario(client):
        calls = batch_worker(rig.services)._calls
        body = json.dumps(BODY).encode()
        told = [(await calls.post(CHAT, body, caller.account)).status for caller in (ann, ann, ben)]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(calls.post(CHAT, body, ann.account), 0.3)
        return told, (await client.post(CHAT, BODY, **sent("ann"))).status

    assert rig.run(scenario) == ([200, 200, 404], 429)


def test_each_api_has_its_own_error_beyond_the_limit(make_rig, file):
    rig = make_rig(keys_file=file)

    async def scenario(client):
        for _ in range(2):
            await client.post(CHAT, BODY, **sent("ann"))
        return [await client.post(path, body, **sent("ann")) for path, body, _ in SHAPES]

    for answer, (path, _, is_right) in zip(rig.run(scenario), SHAPES, strict=True):
        assert answer.status == 429, path
        assert "retry-after" in answer.headers, path
        assert is_right(answer.json), (path, answer.json)


def test_other_models_do_not_exist_for_a_key(make_rig, file):
    rig = make_rig(keys_file=file)
    rig.services.catalogue.models.append(ModelCard("small-1", 1, 1, 512, "ready", [], "chat"))
    listed = rig.get("/v1/models", **sent("ben")).json["data"]
    assert [model["id"] for model in listed] == ["small-1"]
    assert len(rig.get("/v1/models", **sent("root")).json["data"]) == 2
    assert [model["name"] for model in rig.get("/v1beta/models", **sent("ben")).json["models"]] == [
        "models/small-1"
    ]
    assert rig.get("/v2/models", **sent("ben")).json == {"models": ["small-1"]}
    for path in ("/v1/models/tiny", "/v1beta/models/tiny", "/v1/models/tiny/graph"):
        assert rig.get(path, **sent("ben")).status == 404, path
    refused = rig.post(CHAT, BODY, **sent("ben"))
    assert (refused.status, refused.error["type"]) == (404, "NotFoundError")
    assert rig.post("/api/chat", BODY, **sent("ben")).status == 404
    assert rig.post(CHAT, {"messages": BODY["messages"]}, **sent("ben")).status == 200
    assert rig.get("/v1/status", **sent("ben")).status == 403


def test_every_path_needs_a_key_and_some_an_admin_key(make_rig, file):
    rig = make_rig(keys_file=file)
    assert rig.get("/v1/models").status == 401
    assert rig.get("/v1/models", Authorization="Bearer key-of-eve").status == 401
    assert rig.post("/models/unload", {"model": "x"}, **sent("ann")).status == 401
    assert rig.post("/models/unload", {"model": 1}, **sent("root")).status == 400
    assert rig.get("/health").status == 200


def test_a_changed_file_counts_within_a_second_and_a_broken_one_changes_nothing(make_rig, file, caplog):
    rig = make_rig(keys_file=file)

    async def scenario(client):
        before = file.read_text()
        file.write_text(before + entry("eve"))
        await until(lambda: not rig.services.key_file.has_changed())
        added = (await client.get("/v1/models", **sent("eve"))).status
        file.write_text("- name: [")
        await until(lambda: not rig.services.key_file.has_changed() and caplog.records)
        broken = (await client.get("/v1/models", **sent("eve"))).status
        file.write_text(before)
        await until(lambda: not rig.services.key_file.has_changed())
        return added, broken, (await client.get("/v1/models", **sent("eve"))).status

    assert rig.run(scenario) == (200, 200, 401)
    assert "the keys from before stay" in caplog.text


def test_a_file_has_changed_until_its_keys_count(file, monkeypatch):
    keys, seen = KeyFile(file), []
    file.write_text(file.read_text() + entry("eve"))

    def parsed(*text, parse=key_file.parse_keys):
        seen.append(keys.has_changed())
        return parse(*text)

    monkeypatch.setattr(key_file, "parse_keys", parsed)
    keys.refresh()
    assert seen == [True]
    assert not keys.has_changed()
    assert keys.find([bytes.fromhex(digest_of("key-of-eve"))]).name == "eve"


def test_a_process_that_starts_beside_a_broken_file_has_the_last_good_keys(file, tmp_path):
    copy = tmp_path / "copy.yaml"
    KeyFile(file, copy)
    file.write_text("{")
    later = KeyFile(file, copy)
    assert later.find([bytes.fromhex(digest_of("key-of-ann"))]).name == "ann"
    with pytest.raises(KeyFileError):
        KeyFile(file)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{a: 1}", "tuple"),
        ("- {name: a}", "digest"),
        ("- {name: a, digest: abc}", "SHA-256"),
        (f"- {{name: 'a b', digest: '{'0' * 64}'}}", "name"),
        (f"- {{name: a, digest: '{'0' * 64}', requests: 1}}", "requests"),
        (f"- {{name: a, digest: '{'0' * 64}', requests_per_minute: 0}}", "requests_per_minute"),
        (f"- {{name: a, digest: '{'0' * 64}'}}\n- {{name: a, digest: '{'1' * 64}'}}", "the name a"),
        (f"- {{name: a, digest: '{'0' * 64}'}}\n- {{name: b, digest: '{'0' * 64}'}}", "the digest 000"),
        ("- [", "YAML"),
    ],
)
def test_a_wrong_file_is_refused_by_what_is_wrong(text, problem):
    with pytest.raises(KeyFileError, match=problem):
        parse_keys(text)


def test_keys_add_shows_a_key_once_and_writes_its_digest(tmp_path):
    path = tmp_path / "keys.yaml"
    path.write_text("# ours\n")
    arguments = ["keys", "add", "ann", "--file", str(path), "--model", "tiny", "--tokens-per-minute", "9"]
    done = CliRunner().invoke(main, arguments)
    secret = done.stdout.strip()
    (key,) = parse_keys(path.read_text())
    assert (key.name, key.models, key.tokens_per_minute) == ("ann", ("tiny",), 9)
    assert key.digest == digest_of(secret)
    assert secret not in path.read_text()
    assert path.read_text().startswith("# ours\n")
    assert path.stat().st_mode & 0o777 == 0o600
    again = CliRunner().invoke(main, arguments)
    assert (again.exit_code, again.stdout) == (1, "")
    assert len(parse_keys(path.read_text())) == 1


def key(**limits):
    return NamedKey(name="ann", digest="0" * 64, **limits)


def test_limits_are_those_of_a_server_not_of_a_worker(tmp_path):
    now = [1000.0]
    key_limits, other = (KeyLimits(tmp_path / "limits", lambda: now[0]) for _ in range(2))
    ann = key(requests_per_minute=3)
    assert [limits.enter(ann)[0].remaining for limits in (key_limits, other, key_limits)] == [2, 1, 0]
    with pytest.raises(KeyLimited) as refused:
        other.enter(ann)
    assert refused.value.retry_after_s == 20
    now[0] += 20
    assert other.enter(ann)[0].remaining == 0
    now[0] += 60
    assert key_limits.enter(ann)[0].remaining == 2


def test_tokens_beyond_the_limit_delay_the_next_request(tmp_path):
    now = [1000.0]
    limits, ann = KeyLimits(None, lambda: now[0]), key(tokens_per_minute=600)
    (bound,) = limits.enter(ann)
    assert (bound.remaining, bound.reset_s) == (600, 0)
    limits.spend(ann, 1200)
    with pytest.raises(KeyLimited, match="tokens per minute"):
        limits.enter(ann)
    now[0] += 60.2
    assert limits.enter(ann)[0].remaining == 2


def test_many_names_have_rows_of_their_own():
    limits = KeyLimits(None)
    keys = [NamedKey(name=f"k{i}", digest=f"{i:064x}", requests_per_minute=2) for i in range(2000)]
    assert {limits.enter(each)[0].remaining for each in keys} == {1}
    assert {limits.enter(each)[0].remaining for each in keys} == {0}


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0ms"), (0.0121, "13ms"), (8.64, "8.64s"), (60, "1m0s"), (3661.5, "61m1.5s")]
)
def test_durations_are_written_as_openai_does(seconds, text):
    assert duration(seconds) == text


def ended(account, model="tiny", prompt=5, output=3):
    trace = RequestTrace("r", time.monotonic())
    trace.account = account
    timing = RequestTiming(model)
    timing.num_prompt_tokens = prompt
    timing.tokens(0, output)
    trace.calls.append(CallTrace(model, {}, timing))
    return trace


def test_usage_is_shown_by_day_model_and_key_to_those_that_it_concerns(make_rig, file, tmp_path):
    rig = make_rig(keys_file=file, usage_file=tmp_path / "usage.sqlite")
    accounts = {named_key.name: named_key.account for named_key in parse_keys(file.read_text())}

    async def scenario(client):
        usage = rig.services.usage
        for trace in (ended(accounts["ann"]), ended(accounts["ann"], "big"), ended(accounts["ben"])):
            usage.add(trace)
        return [
            await client.get("/v1/usage?limit=2", **sent("ann")),
            await client.get("/v1/organization/usage/completions?group_by[]=model", **sent("ann")),
            await client.get("/v1/usage?limit=1&group_by=api_key_id&group_by=model", **sent("root")),
            await client.get("/v1/usage?limit=1&models=big&api_key_ids=ann", **sent("root")),
            await client.get("/v1/usage?limit=1&api_key_ids=ann", **sent("ben")),
            await client.get("/v1/usage?start_time=0&limit=3", **sent("ann")),
        ]

    own, by_model, everyone, single, not_own, old = [answer.json for answer in rig.run(scenario)]
    assert [len(day["results"]) for day in own["data"]] == [0, 1]
    (result,) = own["data"][1]["results"]
    assert (result["num_model_requests"], result["input_tokens"], result["output_tokens"]) == (2, 10, 6)
    assert own["data"][1]["end_time"] - own["data"][1]["start_time"] == 86_400
    assert {row["model"] for row in by_model["data"][-1]["results"]} == {"tiny", "big"}
    pairs = {(row["api_key_id"], row["model"]) for row in everyone["data"][0]["results"]}
    assert pairs == {("ann", "big"), ("ann", "tiny"), ("ben", "tiny")}
    assert single["data"][0]["results"][0]["num_model_requests"] == 1
    assert not_own["data"][0]["results"] == []
    assert (old["has_more"], old["next_page"], len(old["data"])) == (True, "page_3", 3)
    for query in ("bucket_width=1h", "limit=0", "group_by=color", "page=x", "start_time=-1"):
        assert rig.get(f"/v1/usage?{query}", **sent("ann")).status == 400, query


def test_usage_outlives_the_worker_and_ends_after_its_days(tmp_path):
    now = [100 * 86_400.0]
    settings = Settings(usage_file=tmp_path / "usage.sqlite", usage_days=2)

    async def on_day(day, *traces):
        now[0] = day * 86_400.0
        usage = UsageLog(settings, None, KeyLimits(None), lambda: now[0])
        await usage.open()
        for trace in traces:
            usage.add(trace)
        try:
            return [(place.day, totals.requests) for place, totals in await usage.rows(0, 200)]
        finally:
            await usage.close()

    assert asyncio.run(on_day(100, ended(""), ended(""))) == [(100, 2)]
    assert asyncio.run(on_day(101, ended(""))) == [(100, 2), (101, 1)]
    assert asyncio.run(on_day(102, ended(""))) == [(101, 1), (102, 1)]


def test_metrics_have_the_names_of_the_file_and_one_label_for_all_others(few_metrics, make_rig, file):
    rig = make_rig(ScriptedPipeline(), keys_file=file)
    (ann, *_) = parse_keys(file.read_text())
    for account in (ann.account, "0123", "4567"):
        rig.services.usage.add(ended(account, "counted"))
    deferred.catch_up()
    lines = rig.get("/metrics").body.decode().splitlines()
    samples = [line for line in lines if 'model_name="counted"' in line and "key_requests_total" in line]
    assert sorted(line.partition("{")[2] for line in samples) == [
        'key="ann",model_name="counted"} 1.0',
        'key="other",model_name="counted"} 2.0',
    ]
