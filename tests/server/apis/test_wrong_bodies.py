"""Twenty wrong bodies for each API: every one is refused in that API's shape."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from scripted import ScriptedPipeline

from server.base.api_names import API_NAMES


def openai(error: Any) -> bool:
    return {*error["error"]} >= {"message", "type", "param", "code"} and error["error"]["code"] in range(
        400, 500
    )


def coded(error: Any) -> bool:
    return isinstance(error["error"]["code"], int) and isinstance(error["error"]["message"], str)


def text(error: Any) -> bool:
    return isinstance(error["error"], str) and bool(error["error"])


SHAPES = {
    "anthropic": lambda error: error["type"] == "error" and {*error["error"]} >= {"type", "message"},
    "gemini": lambda error: coded(error) and isinstance(error["error"]["status"], str),
    "llamacpp": lambda error: coded(error) and isinstance(error["error"]["type"], str),
    "ollama": text,
    "kserve": text,
    "tei": lambda error: text(error) and isinstance(error["error_type"], str),
    "cohere": lambda error: isinstance(error["message"], str),
    "ovms": text,
}
"""What an error looks like; in all other families as in OpenAI's."""


class Asked(NamedTuple):
    """A path, a body that is right, and its field that matters most."""

    path: str
    body: dict[str, Any]
    field: str
    task: str = "chat"
    wrong: str = "model"  # another field, which is no number


MESSAGES = [{"role": "user", "content": "hi"}]
QUESTIONS = [{"type": "predicate", "name": "a", "instructions": "It is."}]
ASKED = {
    "openai": Asked("/v1/chat/completions", {"messages": MESSAGES}, "messages"),
    "responses": Asked("/v1/responses", {"input": "a"}, "input"),
    "anthropic": Asked("/v1/messages", {"messages": MESSAGES, "max_tokens": 5}, "messages"),
    "gemini": Asked(
        "/v1beta/models/tiny:generateContent",
        {"contents": [{"parts": [{"text": "a"}]}]},
        "contents",
        wrong="tools",
    ),
    "batches": Asked(
        "/v1/batches", {"endpoint": "/v1/embeddings", "completion_window": "24h"}, "input_file_id"
    ),
    "decisions": Asked("/v1/decisions", {"input": "a", "questions": QUESTIONS}, "questions"),
    "moderations": Asked("/v1/moderations", {"input": "a"}, "input"),
    "pooling": Asked("/v1/embeddings", {"input": "a"}, "input", "embed"),
    "retrieval": Asked("/v1/search", {"query": "a"}, "query", "search"),
    "tei": Asked("/embed", {"inputs": "a"}, "inputs", "embed"),
    "cohere": Asked("/v2/embed", {"texts": ["a"]}, "texts", "embed"),
    "tokenizing": Asked("/tokenize", {"prompt": "a"}, "prompt"),
    "voice": Asked("/v1/audio/speech", {"input": "a"}, "input"),
    "scale_out": Asked(
        "/inference/v1/generate", {"token_ids": [1], "sampling_params": {"max_tokens": 1}}, "token_ids"
    ),
    "kserve": Asked("/v2/models/tiny/generate", {"text_input": "a"}, "text_input", wrong="parameters"),
    "ollama": Asked("/api/chat", {"model": "tiny", "messages": MESSAGES}, "model", wrong="messages"),
    "llamacpp": Asked("/completion", {"prompt": "a"}, "prompt"),
    "mistral": Asked("/v1/fim/completions", {"prompt": "a", "suffix": "b"}, "prompt"),
    "deepseek": Asked("/beta/completions", {"prompt": "a", "suffix": "b"}, "prompt"),
    "ovms": Asked("/v3/chat/completions", {"messages": MESSAGES}, "messages"),
}
"""Families whose bodies are JSON.  Sounds are forms, live speech is a WebSocket, usage has no bodies."""
WITHOUT_BODIES = {"realtime", "speech", "usage"}


def test_every_family_is_here():
    assert {*ASKED} | WITHOUT_BODIES == {*API_NAMES}


RAW = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"7",
    b'"a"',
    b"\xff\xfe{}",
    b'{"a": NaN}',
    b"{} x",
    b'{"a":' * 99 + b"1" + b"}" * 99,
]


def wrong_bodies(asked: Asked) -> list[bytes]:
    """Bodies that are no objects, and bodies whose chief field or model is wrong."""
    values = [None, 7, True, {"x": 1}, [None], [[[7]]], [{"x": {}}], -1.5]
    bodies: list[dict[str, Any]] = [{**asked.body, asked.field: value} for value in values]
    bodies.append({name: value for name, value in asked.body.items() if name != asked.field})
    bodies.append({**asked.body, asked.wrong: 7})
    return [*RAW, *(json.dumps(body).encode() for body in bodies)]


@pytest.mark.parametrize("family", ASKED)
def test_a_wrong_body_is_refused_in_the_shape_of_its_api(make_rig, family):
    asked, has_shape = ASKED[family], SHAPES.get(family, openai)
    rig = make_rig(ScriptedPipeline(task=asked.task))
    bodies = wrong_bodies(asked)

    async def scenario(client):
        return [await client.post(asked.path, body) for body in bodies]

    answers = rig.run(scenario)
    assert len(answers) == 20
    taken = [body for body, answer in zip(bodies, answers, strict=True) if not 400 <= answer.status < 500]
    assert taken == []
    for body, answer in zip(bodies, answers, strict=True):
        assert has_shape(answer.json), (body, answer.body)
    assert rig.services.admission.num_inside == 0
