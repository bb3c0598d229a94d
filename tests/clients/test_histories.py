"""Requests as programs send them that cannot be run here: their histories, and the fields that they add.

Each file of histories/ has a program's requests, written after what its source puts into them.  `expect`: text
that the reply holds, arguments of its call, the number of its vectors, the document that is ranked first; or
`any`: a reply that ends well; `nothing`: a 200 without a body.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from patience import PATIENCE_S

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))
REQUESTS = [
    pytest.param(request, id=f"{path.stem}: {request['name']}")
    for path in HISTORIES
    for request in json.loads(path.read_text())["requests"]
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_is_served(request_: dict[str, Any], demo: str) -> None:
    body, expected = request_["body"], request_["expect"]
    method = request_.get("method", "POST")
    reply = httpx.request(method, demo + request_["path"], json=body, timeout=PATIENCE_S)
    assert reply.status_code == 200, reply.text
    if "nothing" in expected:
        assert reply.content == b""
    elif "vectors" in expected:
        vectors = reply.json()
        assert len(vectors.get("data") or vectors["embeddings"]) == expected["vectors"]
    elif "members" in expected:
        assert {*expected["members"]} <= reply.json().keys()
    elif "first" in expected:
        assert reply.json()["results"][0]["index"] == expected["first"]
    else:
        read = (
            of_ollama if request_["path"].startswith("/api/") else streamed if body.get("stream") else whole
        )
        text, call, reason = read(reply.text)
        assert reason in ("stop", "length", "tool_calls")
        assert expected.get("text", "") in text
        assert expected.get("call") in (None, call)


def test_a_conversation_of_several_turns_by_ollamas_api(demo: str) -> None:
    """As Open WebUI and Home Assistant go on: each request has all earlier messages as the replies had them."""
    (asked,) = [
        request["body"]
        for path in HISTORIES
        for request in json.loads(path.read_text())["requests"]
        if request["name"] == "Home Assistant's second turn has the result"
    ]
    question, _, result = asked["messages"]
    messages: list[dict[str, Any]] = []
    sizes = []
    for said in (
        {"role": "user", "content": "What is the capital of France?"},
        question,
        result,
        {"role": "user", "content": "What is the capital of Italy?"},
    ):
        messages.append(said)
        body = {**asked, "messages": messages, "options": {"temperature": 0}}
        reply = httpx.post(f"{demo}/api/chat", json=body, timeout=PATIENCE_S)
        assert reply.status_code == 200, reply.text
        lines = [json.loads(line) for line in reply.text.splitlines()]
        calls = [call for line in lines for call in line["message"].get("tool_calls") or []]
        text = "".join(line["message"]["content"] for line in lines)
        messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        sizes.append(lines[-1]["prompt_eval_count"])
    texts = [message["content"] for message in messages[1::2]]
    assert "Paris" in texts[0]
    assert messages[3]["tool_calls"][0]["function"]["arguments"] == {"city": "Oslo"}
    assert "7" in texts[2]
    assert texts[3]
    assert sizes == sorted(sizes), "each prompt has the one before"


def whole(text: str) -> tuple[str, Any, str]:
    """(content, arguments of the call, why it ended)"""
    (choice,) = json.loads(text)["choices"]
    calls = choice["message"].get("tool_calls") or []
    arguments = json.loads(calls[0]["function"]["arguments"]) if calls else None
    return choice["message"]["content"] or "", arguments, choice["finish_reason"]


def of_ollama(text: str) -> tuple[str, Any, str]:
    """The same of lines of JSON, or of one object."""
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    messages = [line.get("message", {}) for line in lines]
    pieces = [
        line.get("response", message.get("content", ""))
        for line, message in zip(lines, messages, strict=True)
    ]
    calls = [call["function"]["arguments"] for message in messages for call in message.get("tool_calls", [])]
    return "".join(pieces), calls[0] if calls else None, lines[-1]["done_reason"]


def streamed(text: str) -> tuple[str, Any, str]:
    events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    choices = [choice for event in events[:-1] for choice in json.loads(event)["choices"]]
    pieces = [choice["text"] if "text" in choice else choice["delta"].get("content") for choice in choices]
    return "".join(piece or "" for piece in pieces), None, choices[-1]["finish_reason"]
