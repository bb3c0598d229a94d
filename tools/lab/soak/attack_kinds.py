"""What one client sends to cost the others: each kind stands for one thing that all clients share."""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from PIL import Image

from tools.client.form_data import HEADERS, form_data
from tools.lab.soak.raw_requests import RawRequest
from tools.lab.soak.request_kinds import CHAT

LARGE_BYTES = 8_000_000
UNREAD_S = 10.0
NUM_SCANS = 5000
AT_ONCE = 60
"""More than half of the WebSockets that a server opens by default; two of these attacks run at once."""
FOREIGN = {"Origin": "http://evil.example"}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


def _chat(content: Any = "hi", leaves_after_s: float | None = None, **fields: Any) -> RawRequest:
    body = {"model": CHAT, "messages": [{"role": "user", "content": content}], "max_tokens": 4, **fields}
    return RawRequest("/v1/chat/completions", json.dumps(body).encode(), leaves_after_s=leaves_after_s)


def _post(path: str, **body: Any) -> RawRequest:
    return RawRequest(path, json.dumps({"model": CHAT, **body}).encode())


def _schema(schema: dict[str, Any]) -> RawRequest:
    wanted = {"type": "json_schema", "json_schema": {"name": "record", "schema": schema}}
    return _chat(response_format=wanted)


def _product(rng: Random) -> RawRequest:
    """Automata of several `multipleOf` multiply."""
    divisors = rng.sample([9967, 9973, 9871, 9883, 9887, 9901, 9907, 9923], rng.randint(2, 3))
    return _schema({"allOf": [{"type": "integer", "multipleOf": divisor} for divisor in divisors]})


def _repeats(rng: Random) -> RawRequest:
    regex = rng.choice(
        ["((a{{100}}){{100}}){{{}}}", "((a{{0,100}}b?){{0,100}}){{{}}}", "(((a|b)?){{99}}){{{}}}"]
    )
    return _chat(structured_outputs={"regex": regex.format(rng.randint(40, 140))})


def _long_regex(rng: Random) -> RawRequest:
    return _chat(structured_outputs={"regex": rng.choice("abc") * 1_000_000})


def _doubled(rng: Random) -> RawRequest:
    """2²² leaves, where each reference is followed."""
    depth, keyword = 22, rng.choice(["allOf", "anyOf", "oneOf"])
    names = [{"$ref": f"#/$defs/d{number + 1}"} for number in range(depth)]
    levels: dict[str, Any] = {f"d{number}": {keyword: [name, name]} for number, name in enumerate(names)}
    leaf = {"type": "string", "pattern": rng.choice("abc") + "+"}
    return _schema({"$defs": levels | {f"d{depth}": leaf}, "$ref": "#/$defs/d0"})


def _self(rng: Random) -> RawRequest:
    itself = {"$ref": "#"}
    forms: list[dict[str, Any]] = [itself, {"allOf": [itself, itself]}, {"not": itself}]
    forms += [{"type": "object", "properties": {"a": itself}, "required": ["a"]}, {"anyOf": [itself]}]
    return _schema(rng.choice(forms))


def _large(rng: Random) -> RawRequest:
    return _post("/v1/completions", prompt="hi", max_tokens=1, user=rng.choice("uvw") * LARGE_BYTES)


def _large_stored(rng: Random) -> RawRequest:
    """A response with an id that costs no tokens."""
    message = {"type": "message", "role": "user", "content": "hi", "id": rng.choice("xyz") * LARGE_BYTES}
    return _post("/v1/responses", max_output_tokens=16, store=True, input=[message])


def upload(content: bytes, **more: Any) -> RawRequest:
    """A file for a batch.  `more`: other fields of the request."""
    body = form_data({"purpose": "batch"}, "a.jsonl", content)
    return RawRequest("/v1/files", body, headers=HEADERS, **more)


def _files(rng: Random) -> RawRequest:
    return upload(b"\n" * LARGE_BYTES)


def _unread(rng: Random) -> RawRequest:
    wide: dict[str, Any] = {"n": 8, "logprobs": True, "top_logprobs": 20, "max_tokens": 200}
    return _chat(leaves_after_s=UNREAD_S, stream=True, ignore_eos=True, **wide)


def _cancelled(rng: Random) -> RawRequest:
    return _chat(leaves_after_s=rng.random() / 2, stream=True, ignore_eos=True, n=4, max_tokens=200)


def _socket(rng: Random) -> RawRequest:
    """The first part of a message of a WebSocket, which never ends: opcode text, masked with zeros."""
    size = 15_900_000
    frame = b"\x01\xff" + size.to_bytes(8, "big") + bytes(4) + b"a" * LARGE_BYTES
    path = "/v1/realtime?intent=transcription"
    return RawRequest(path, method="GET", headers=UPGRADE, then=frame, leaves_after_s=UNREAD_S)


def _sockets(rng: Random) -> RawRequest:
    """More WebSockets than one key may open, which say nothing."""
    return RawRequest("/v1/responses", method="GET", headers=UPGRADE, leaves_after_s=2.0, copies=AT_ONCE)


def _slow_uploads(rng: Random) -> RawRequest:
    """More uploads than one key may send, which stop in the middle."""
    whole = upload(b"\n" * LARGE_BYTES, copies=8, gives_up_s=UNREAD_S)
    length = str(len(whole.body))
    return replace(whole, body=whole.body[:100_000], headers={**whole.headers, "Content-Length": length})


def _background(rng: Random) -> RawRequest:
    """Responses that run on without a client."""
    ask = _post("/v1/responses", input="hi", background=True, store=True, max_output_tokens=200)
    return replace(ask, copies=16)


def _batch(rng: Random) -> RawRequest:
    """A batch each of whose lines has a grammar of its own that costs much."""
    lines = []
    for number in range(10):
        body = {"model": CHAT, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        regex = f"((a{{100}}){{100}}){{{rng.randint(40, 140)}}}"
        body |= {"structured_outputs": {"regex": regex}}
        line = {"custom_id": str(number), "method": "POST", "url": "/v1/chat/completions", "body": body}
        lines.append(json.dumps(line))
    return upload("\n".join(lines).encode(), next_of=_batch_of)


def _batch_of(answer: bytes) -> RawRequest:
    fields = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
    body = {"input_file_id": json.loads(answer)["id"], **fields}
    return RawRequest("/v1/batches", json.dumps(body).encode())


def _wide(rng: Random) -> RawRequest:
    return _chat(n=128, max_tokens=100, ignore_eos=True, logprobs=True, top_logprobs=20)


def _broken(rng: Random) -> RawRequest:
    """A body that is no request: cut, nested, compressed, of other types, of numbers without end."""
    good, packed = _chat().body, _packed()
    bodies = [
        good[: rng.randrange(len(good))],
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xff\xfe{}",
        bytes(1000),
    ]
    numbers = [b"1e400", b"-" + b"9" * 10_000, b"NaN", b"{}"]
    bodies += [good.replace(b"4}", number + b"}") for number in numbers]
    bodies += [
        good.replace(b'"hi"', content) for content in (b"null", b"[[]]", b'[{"type": []}]', b"7" * 5000)
    ]
    bodies += [packed, packed[: len(packed) // 2]]
    body = rng.choice(bodies)
    headers = {"Content-Encoding": "gzip"} if body[:2] == packed[:2] else {}
    return RawRequest("/v1/chat/completions", body, headers=headers)


@cache
def _packed() -> bytes:
    """100 MB of zeros."""
    return gzip.compress(bytes(100_000_000), 1, mtime=0)


def _foreign(rng: Random) -> RawRequest:
    path = rng.choice(["/models/unload", f"/v2/repository/models/{CHAT}/unload", "/v1/config/reload"])
    return RawRequest(
        path, json.dumps({"model": CHAT}).encode(), headers={**FOREIGN, "Content-Type": "text/plain"}
    )


def _foreign_socket(rng: Random) -> RawRequest:
    return RawRequest("/v1/realtime", method="GET", headers={**UPGRADE, **FOREIGN}, leaves_after_s=0)


def _administration(rng: Random) -> RawRequest:
    return rng.choice(
        [_post("/models/unload"), _post("/v1/requests/chatcmpl-0/cancel"), _post("/models/load")]
    )


def _odd_path(rng: Random) -> RawRequest:
    paths = ["/v1/models//", "/v2//", "/v3//", "/v3/v1//", "//", "/v1/models/%00", "/v1/models/..%2f..%2fetc"]
    paths += [
        "/v1/responses//",
        "/v1/files/%ff",
        "/v1/responses/%ed%a0%80",
        "/v2/models//versions//",
        "/status/..%2f..%2fapp.py",
    ]
    return RawRequest(rng.choice(paths), method=rng.choice(["GET", "POST", "DELETE"]))


def _scans(rng: Random) -> RawRequest:
    """A progressive JPEG whose last scan is repeated; a model that does not see refuses it unread."""
    file = io.BytesIO()
    image = Image.linear_gradient("L").rotate(rng.randint(1, 89)).resize((512, 512))
    image.save(file, "JPEG", progressive=True)
    last = file.getvalue().rindex(b"\xff\xda")
    data = file.getvalue()[:last] + b"\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x10\x00" * NUM_SCANS + b"\xff\xd9"
    url = "data:image/jpeg;base64," + base64.b64encode(data).decode()
    return _chat([{"type": "image_url", "image_url": {"url": url}}])


def _surrogates(rng: Random) -> RawRequest:
    lone = rng.choice(["\ud800", "a\udfff", "\udc00\ud800"])
    fields: list[dict[str, Any]] = [{"content": lone}, {"stop": [lone]}, {"user": lone}, {"model": lone}]
    fields += [{"tools": [{"type": "function", "function": {"name": "a", "description": lone}}]}]
    fields += [{"structured_outputs": {"choice": [lone]}}, {"structured_outputs": {"regex": "\\ud800"}}]
    function = {"name": "get_weather", "arguments": json.dumps({"city": lone})}
    call = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    fields += [{"messages": [call, {"role": "tool", "tool_call_id": "c", "content": json.dumps(lone)}]}]
    return _chat(**rng.choice(fields))


ATTACKS: dict[str, Callable[[Random], RawRequest]] = {
    "product of multipleOf": _product,
    "nested repeats": _repeats,
    "regex of 1 MB": _long_regex,
    "doubled references": _doubled,
    "schema of itself": _self,
    "body of 8 MB": _large,
    "stored field of 8 MB": _large_stored,
    "batch of hard grammars": _batch,
    "files to the quota": _files,
    "unread stream": _unread,
    "stream, client leaves": _cancelled,
    "unfinished WebSocket message": _socket,
    "WebSockets to the limit": _sockets,
    "slow uploads to the limit": _slow_uploads,
    "background responses": _background,
    "128 choices": _wide,
    "broken body": _broken,
    "foreign Origin": _foreign,
    "foreign Origin, WebSocket": _foreign_socket,
    "administration": _administration,
    "odd path": _odd_path,
    "JPEG of 5,000 scans": _scans,
    "lone surrogates": _surrogates,
}
"""Kind → what makes one."""
