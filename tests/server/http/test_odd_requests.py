"""What clients write a little differently: slashes, HEAD, a byte order mark."""

from __future__ import annotations

import codecs
import json

import pytest
from whole_document import described_operations


@pytest.mark.parametrize("prefix", ["/v1", "/v3", "/v3/v1"])
def test_a_name_with_a_slash_too_many_is_found(rig, prefix):
    assert rig.get(f"{prefix}/models//tiny").json["id"] == "tiny"
    assert rig.get(f"{prefix}/models//").status == 404
    assert rig.get(f"{prefix}/models/").status == 200


READ = sorted({path for method, path in described_operations() if method == "GET"})


def test_head_is_get_without_a_body_at_every_path(rig):
    async def scenario(client):
        for path in READ:
            head, got = await client.ask("HEAD", path), await client.ask("GET", path)
            assert (head.status, head.body) == (got.status, b""), path
            for name in ("content-type", "location", "etag"):
                assert head.headers.get(name) == got.headers.get(name), path

    assert len(READ) > 50
    rig.run(scenario)


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
