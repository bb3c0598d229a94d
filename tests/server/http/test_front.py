"""What stands before the endpoints: keys, limits, ids, origins, stray requests."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import zlib

import pytest
from patience import until
from scripted import said

from server.http.auth import OPEN_PATHS, Keys

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize("key", ["one", "two"])
def test_any_of_the_keys_opens(make_rig, key):
    rig = make_rig(api_keys=("one", "two"))
    assert rig.post(CHAT, BODY, Authorization=f"bearer {key}").status == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer three", "Basic one", "one", "Bearer on", "Bearer onee"]
)
def test_anything_else_is_refused(make_rig, header):
    answer = make_rig(api_keys=("one",)).post(CHAT, BODY, Authorization=header)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.error["type"] == "AuthenticationError"


def test_a_key_that_is_no_ascii_is_refused_without_a_fault(make_rig):
    assert make_rig(api_keys=("one",)).post(CHAT, BODY, Authorization="Bearer é").status == 401


def test_every_digest_is_compared(monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: compared.append(b) or a == b)
    assert Keys(["one", "two", "three"]).tenant("Bearer one")
    assert len(compared) == 3


@pytest.mark.parametrize("path", ["/v1/models", "/v3/models/tiny", "/v1/nothing", "/nothing", "/v2/models"])
def test_all_paths_are_guarded_known_or_not(make_rig, path):
    assert make_rig(api_keys=("one",)).get(path).status == 401


@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
def test_health_version_and_metrics_are_open(few_metrics, make_rig, path):
    assert make_rig(api_keys=("one",)).get(path).status == 200


def test_without_keys_none_is_asked(rig):
    assert rig.get("/v1/models").status == 200


def test_a_body_beyond_the_limit_is_refused_by_its_length(make_rig):
    rig = make_rig(max_body_mb=1)
    answer = rig.ask("POST", CHAT, headers={"content-type": "application/json", "content-length": "9999999"})
    assert answer.status == 413
    assert answer.error["type"] == "RequestEntityTooLarge"


def test_a_body_beyond_the_limit_is_refused_while_it_arrives(make_rig):
    answer = make_rig(max_body_mb=1).post(CHAT, [b" " * (1 << 19)] * 3)
    assert answer.status == 413


def test_a_body_that_stops_coming_holds_no_place_and_starts_nothing(rig):
    async def scenario(client):
        headers = {"content-type": "application/json"}
        request = client.begin("POST", CHAT, [json.dumps(BODY).encode()], headers, stalls=True)
        await asyncio.sleep(0.02)
        num_inside = rig.services.admission.num_inside
        request.hang_up()
        await request.task
        return num_inside

    assert rig.run(scenario) == 0
    assert rig.pipeline.calls == []


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_only_json_is_taken(rig, content_type):
    answer = rig.ask("POST", CHAT, body=b"{}", headers={"content-type": content_type})
    assert answer.status == 400
    assert "application/json" in answer.error["message"]


def test_a_charset_may_stand_behind_the_type(rig):
    assert rig.post(CHAT, BODY, content_type="Application/JSON; charset=utf-8").status == 200


def compressors():
    zstd = pytest.importorskip("backports.zstd" if sys.version_info < (3, 14) else "compression.zstd")
    return {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd.compress}


def post_compressed(rig, encoding, data):
    headers = {"content-type": "application/json", "content-encoding": encoding}
    pieces = [data[at : at + 1000] for at in range(0, len(data), 1000)]
    return rig.run(lambda client: client.ask("POST", CHAT, pieces, headers))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_a_body_may_be_compressed(make_rig, encoding):
    compress, rig = compressors()[encoding], make_rig(max_body_mb=1)
    long = {**BODY, "messages": [{"role": "user", "content": "".join(map(str, range(60_000)))}]}
    for body in (BODY, long):
        data = compress(json.dumps(body).encode())
        assert post_compressed(rig, encoding, data).status == 200
    for broken in (data[:-1], data + b"x", b"\x00" + data, b"x"):
        answer = post_compressed(rig, encoding, broken)
        assert answer.status == 400, broken[:8]
    bomb = compress(b" " * (8 << 20))
    assert len(bomb) < 32 << 10
    assert post_compressed(rig, encoding, bomb).status == 413
    assert rig.services.arriving.num_bytes == 0


def test_a_compression_that_is_not_read_is_refused_by_name(rig):
    answer = rig.post(CHAT, BODY, content_encoding="br")
    assert answer.status == 400
    assert answer.error["param"] == "Content-Encoding"


@pytest.mark.parametrize("body", [b"{", b"", b'{"model": NaN', b"\xff\xfe", b'{"a": 1,}'])
def test_malformed_json_is_a_400(rig, body):
    answer = rig.post(CHAT, body)
    assert answer.status == 400
    assert "not valid JSON" in answer.error["message"]


@pytest.mark.parametrize("body", [b"[]", b"1", b'"a"', b"null"])
def test_a_body_that_is_no_object_is_a_400(rig, body):
    answer = rig.post(CHAT, body)
    assert answer.status == 400
    assert answer.error["message"] == "the body must be a JSON object"


def nested(depth):
    kwargs = "[" * depth + "]" * depth
    return f'{{"messages": [], "chat_template_kwargs": {{"a": {kwargs}}}}}'.encode()


def test_a_body_may_be_nested_64_deep(rig):
    assert "nested" not in rig.post(CHAT, nested(62)).error["message"]


@pytest.mark.parametrize("depth", [63, 5000, 200_000])
def test_a_deeper_body_is_refused(rig, depth):
    answer = rig.post(CHAT, nested(depth))
    assert answer.status == 400
    assert "64 levels" in answer.error["message"]


def test_brackets_in_strings_do_not_count(rig):
    content = '[{"\\' * 500
    assert rig.post(CHAT, {"messages": [{"role": "user", "content": content}]}).status == 200


def test_an_unfinished_string_of_quotes_is_refused_quickly(rig):
    assert rig.post(CHAT, b'["' + b'\\"[' * 400_000).status == 400


def test_beyond_the_limit_requests_are_told_to_come_again(make_rig):
    rig = make_rig(max_concurrency=1)
    rig.pipeline.batches = ["forever"]

    async def scenario(client):
        first = client.begin_post(CHAT, BODY)
        await until(lambda: rig.services.admission.num_inside)
        second = await client.post(CHAT, BODY)
        first.hang_up()
        await first.task
        rig.pipeline.batches = [[(0, said("a", "stop"))]]
        return second, await client.post(CHAT, BODY)

    second, third = rig.run(scenario)
    assert (second.status, third.status) == (429, 200)
    assert second.headers["retry-after"] == "1"
    assert second.error["type"] == "RateLimitError"


def test_a_refused_request_gives_its_place_back(make_rig):
    rig = make_rig(max_concurrency=1)
    for _ in range(3):
        assert rig.post(CHAT, b"{").status == 400
    assert rig.services.admission.num_inside == 0


def test_the_clients_request_id_comes_back_and_names_the_reply(rig):
    answer = rig.post(CHAT, BODY, X_Request_Id="abc-1")
    assert answer.headers["x-request-id"] == "abc-1"
    assert answer.json["id"] == "chatcmpl-abc-1"


def test_the_bodys_request_id_names_the_reply(rig):
    assert rig.post(CHAT, {**BODY, "request_id": "mine"}).json["id"] == "chatcmpl-mine"


@pytest.mark.parametrize("bad", ["a b", "x" * 129, "é", "", "a\tb"])
def test_an_unclean_request_id_is_replaced(rig, bad):
    answer = rig.post(CHAT, BODY, X_Request_Id=bad)
    assert len(answer.headers["x-request-id"]) == 32


def test_errors_carry_a_request_id_too(rig):
    assert rig.get("/nothing", X_Request_Id="abc").headers["x-request-id"] == "abc"


def test_an_unknown_path_is_a_404_in_the_envelope(rig):
    answer = rig.get("/v1/nothing")
    assert answer.status == 404
    assert answer.headers["content-type"] == "application/json"
    assert answer.error == {
        "message": 'Not Found: there is no path "/v1/nothing"; GET /docs lists all paths',
        "type": "NotFoundError",
        "param": None,
        "code": 404,
    }


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/messages", "/v1/messages"),
        ("/v1/chat/completions/chat/completions", "/v1/chat/completions"),
        ("/v3/openai/embeddings", "/v3/embeddings"),
    ],
)
def test_a_wrong_base_url_is_answered_with_the_path_that_was_meant(rig, path, meant):
    assert f"; did you mean {meant}?" in rig.post(path, BODY).body.decode()


@pytest.mark.parametrize(
    "path",
    ["/v1/models/{}", "/v1/models/{}/profile", "/v1/responses/{}", "/v1/responses/{}/input_items", "/v1/{}"],
)
def test_an_unknown_name_of_60_kb_is_cut_in_the_reply(rig, path):
    answer = rig.get(path.format("m" * 60_000))
    assert answer.status == 404
    assert "mmm" in answer.error["message"]
    assert len(answer.body) < 1000


def test_a_wrong_method_is_a_405_that_names_the_right_one(rig):
    answer = rig.get(CHAT)
    assert answer.status == 405
    assert "POST" in answer.headers["allow"]
    assert "POST" in answer.error["message"]


def test_a_fault_of_ours_leaks_nothing(rig, caplog):
    rig.pipeline.batches = [ZeroDivisionError("secret")]
    answer = rig.chat()
    assert answer.status == 500
    assert "secret" not in answer.body.decode()
    assert answer.headers["x-request-id"] in answer.error["message"]
    assert "Traceback" in caplog.text


PREFLIGHT = {
    "origin": "https://a.example",
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization",
}


def test_cors_is_off_unless_set(rig):
    assert "access-control-allow-origin" not in rig.get("/v1/models", origin="https://a.example").headers
    preflight = rig.ask("OPTIONS", CHAT, headers=PREFLIGHT)
    assert "access-control-allow-origin" not in preflight.headers


def test_an_allowed_origin_may_call_and_ask_before(make_rig):
    rig = make_rig(cors_origins=("https://a.example",), api_keys=("one",))
    preflight = rig.ask("OPTIONS", CHAT, headers=PREFLIGHT)
    assert preflight.status == 200
    assert preflight.headers["access-control-allow-origin"] == "https://a.example"
    assert "POST" in preflight.headers["access-control-allow-methods"]
    answer = rig.post(CHAT, BODY, origin="https://a.example", Authorization="Bearer one")
    assert answer.headers["access-control-allow-origin"] == "https://a.example"


def test_another_origin_may_not(make_rig):
    rig = make_rig(cors_origins=("https://a.example",))
    assert "access-control-allow-origin" not in rig.get("/v1/models", origin="https://b.example").headers


@pytest.mark.parametrize("origin", [{}, {"origin": "https://a.example"}, {"origin": "https://b.example"}])
def test_a_cache_is_told_that_replies_depend_on_the_origin(make_rig, origin):
    rig = make_rig(cors_origins=("https://a.example",))
    assert rig.get("/v1/models", **origin).headers["vary"] == "Origin"
    assert rig.get("/nothing", **origin).headers["vary"] == "Origin"


def test_replies_for_every_origin_are_alike_for_caches(make_rig):
    assert "vary" not in make_rig(cors_origins=("*",)).get("/v1/models", origin="https://a.example").headers


def test_a_star_allows_every_origin(make_rig):
    rig = make_rig(cors_origins=("*",))
    assert rig.get("/v1/models", origin="https://b.example").headers["access-control-allow-origin"] == "*"
