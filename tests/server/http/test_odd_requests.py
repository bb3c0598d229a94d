"""What clients write a little differently: slashes, HEAD, a byte order mark."""

from __future__ import annotations

import codecs
import json

import pytest


@pytest.mark.parametrize("prefix", ["/v1", "/v3", "/v3/v1"])
def test_a_name_with_a_slash_too_many_is_found(rig, prefix):
    assert rig.get(f"{prefix}/models//tiny").json["id"] == "tiny"
    assert rig.get(f"{prefix}/models//").status == 404
    assert rig.get(f"{prefix}/models/").status == 200


@pytest.mark.parametrize("path", ["/v1/models", "/v3/models", "/models", "/", "/health", "/v2/health/ready"])
def test_head_is_get_without_a_body(rig, path):
    head, got = rig.ask("HEAD", path), rig.get(path)
    assert (head.status, head.body) == (got.status, b"")
    for name in ("content-type", "content-length", "location"):
        assert head.headers.get(name) == got.headers.get(name)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/messages", {"max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/responses", {"input": "hi", "store": False}),
    ],
)
@pytest.mark.parametrize("pad", [0, 100_000], ids=["short", "long"])
def test_a_byte_order_mark_before_json_is_ignored(rig, path, body, pad):
    sent = codecs.BOM_UTF8 + json.dumps(body).encode() + b" " * pad
    assert rig.post(path, sent).status == 200
