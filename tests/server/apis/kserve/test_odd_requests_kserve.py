"""Slashes too many, and a byte order mark, with real models behind the paths."""

from __future__ import annotations

import codecs
import json

import pytest
from breadth import after
from kserve_requests import IMAGE, as_input
from whole_document import described_operations

PATHS = sorted({path for _, path in described_operations()})
ODD = sorted(
    {
        "/".join([*parts[:at], "", *parts[at:]]) + end
        for path in PATHS
        for parts in [path.replace("{", "").replace("}", "").split("/")]
        for at in range(1, len(parts) + 1)
        for end in ("", "/", "//")
        if not path.endswith("/status")  # as events it has no end
    }
)


@pytest.mark.parametrize("paths", after(1, [ODD[::4], ODD]), ids=["some", "all"])
def test_no_slash_too_many_is_a_fault_of_the_server(ask, paths):
    statuses = {path: ask.get(f"{str(ask.base_url).rstrip('/')}{path}").status_code for path in paths}
    assert len(statuses) > 300
    assert {path: status for path, status in statuses.items() if status == 500} == {}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v2/models/detector/infer", {"inputs": [as_input("image", IMAGE)]}),
        ("/v1/models/detector:predict", {"instances": IMAGE.tolist()}),
        ("/v2/models/text/generate", {"text_input": "hi", "parameters": {"max_tokens": 2}}),
        ("/v1/embeddings", {"model": "vectors", "input": "hi"}),
    ],
)
def test_a_byte_order_mark_before_json_is_ignored(ask, path, body):
    headers = {"Content-Type": "application/json"}
    reply = ask.post(path, content=codecs.BOM_UTF8 + json.dumps(body).encode(), headers=headers)
    assert reply.status_code == 200, reply.text
