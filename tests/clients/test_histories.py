"""Requests as programs send them that cannot be run here: their histories, and the fields that they add.

Each file of histories/ has a program's requests, written after what its source puts into them.  `expect`: text
that the reply holds, arguments of its call, the number of its vectors, the document that is ranked first; or
`any`: a reply that ends well.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))
REQUESTS = [
    pytest.param(request, id=f"{path.stem}: {request['name']}")
    for path in HISTORIES
    for request in json.loads(path.read_text())["requests"]
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_is_served(request_: dict[str, Any], demo: str) -> None:
    body, expected = request_["body"], request_["expect"]
    reply = httpx.post(demo + request_["path"], json=body, timeout=60)
    assert reply.status_code == 200, reply.text
    if "vectors" in expected:
        assert len(reply.json()["data"]) == expected["vectors"]
    elif "first" in expected:
        assert reply.json()["results"][0]["index"] == expected["first"]
    else:
        text, call, reason = streamed(reply.text) if body.get("stream") else whole(reply.json())
        assert reason in ("stop", "length", "tool_calls")
        assert expected.get("text", "") in text
        assert expected.get("call") in (None, call)


def whole(reply: dict[str, Any]) -> tuple[str, Any, str]:
    """(content, arguments of the call, why it ended)"""
    (choice,) = reply["choices"]
    calls = choice["message"].get("tool_calls") or []
    arguments = json.loads(calls[0]["function"]["arguments"]) if calls else None
    return choice["message"]["content"] or "", arguments, choice["finish_reason"]


def streamed(text: str) -> tuple[str, Any, str]:
    events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    choices = [choice for event in events[:-1] for choice in json.loads(event)["choices"]]
    pieces = [choice["text"] if "text" in choice else choice["delta"].get("content") for choice in choices]
    return "".join(piece or "" for piece in pieces), None, choices[-1]["finish_reason"]
