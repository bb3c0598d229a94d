"""Recorded sessions of Codex, request by request, over HTTP and a WebSocket: events, and what of prompts is reused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from agent_recordings import FOLDER, Recorded, recording
from asgi_socket import AsgiSocket
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from scripted_model import serving, write_scripted_model

EVENT = TypeAdapter(ResponseStreamEvent)
NAMES = sorted(f"codex/{path.stem}" for path in (FOLDER / "codex").glob("*.json"))
QUICK = ("codex/mcp", "codex/websocket")
"""Recordings that are replayed in every run; the others are breadth."""
REUSED = 0.98
"""The share of an earlier prompt that the next one of its conversation finds in the cache, but for the last block."""
OTHER = "other"
ENDS = ("response.completed", "response.failed", "response.incomplete", "error")
BLOCK = 64
CHANGED = {
    ("codex/compaction", 3): "the client asks for a summary without any tools",
    ("codex/resumed", 2): "another model, with other tools",
    (
        "codex/openai_websocket",
        3,
    ): "the first request has only the beginning of the instructions, before the tools",
    ("codex/websocket", 3): "the same",
}
"""Recording and exchange → why less than that is reused."""


@pytest.fixture(scope="module")
def ask(tmp_path_factory) -> Iterator[Any]:
    """`ask(requests)` → the events of each, by one connection where they came over a WebSocket."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("scripted", OTHER):
        write_scripted_model(folder / name, [("", "Done.")], max_context=131072)
    runner = asyncio.Runner()
    context = serving(folder, strict_fields=True)  # a field that is not known is a 400
    client = runner.run(context.__aenter__())

    async def post(recorded: Recorded) -> tuple[int, list[dict[str, Any]]]:
        answer = await client.post(recorded.path, recorded.body or {})
        data = [line[6:] for line in answer.body.decode().splitlines() if line.startswith("data: {")]
        return answer.status, [json.loads(line) for line in data]

    async def over_socket(requests: list[Recorded]) -> list[tuple[int, list[dict[str, Any]]]]:
        answers, latest = [], None
        async with AsgiSocket(client._app, "/v1/responses") as socket:
            for recorded in requests:
                body = dict(recorded.body or {})
                if "previous_response_id" in body:
                    body["previous_response_id"] = latest
                socket.say(body)
                answers.append((200, await socket.until(*ENDS)))
                latest = answers[-1][1][-1]["response"]["id"]
        return answers

    async def all_of(requests: list[Recorded]) -> list[tuple[int, list[dict[str, Any]]]]:
        if any(recorded.method == "WS" for recorded in requests):
            return await over_socket([recorded for recorded in requests if recorded.method == "WS"])
        return [await post(recorded) for recorded in requests if recorded.method == "POST"]

    yield lambda requests: runner.run(all_of(requests))
    runner.run(context.__aexit__(None, None, None))
    runner.close()


def checked(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The usage of a stream whose events the client's types accept."""
    for number, event in enumerate(events):
        assert EVENT.validate_python(event, strict=True).type == event["type"]
        assert event["sequence_number"] == number
    assert events[-1]["type"] == "response.completed", events[-1]
    usage: dict[str, Any] = events[-1]["response"]["usage"]
    return usage


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.breadth) for name in NAMES]
)
def test_a_session_is_served_and_its_prompts_are_reused(ask, name):
    requests = [recorded for recorded in recording(name) if recorded.method in ("POST", "WS")]
    before = 0
    for recorded, (status, events) in zip(requests, ask(requests), strict=True):
        assert status == 200, (recorded.exchange, events)
        usage = checked(events)
        cached = usage["input_tokens_details"]["cached_tokens"]
        if before and (name, recorded.exchange) not in CHANGED:
            assert cached >= REUSED * before - BLOCK, (recorded.exchange, cached, before)
        before = usage["input_tokens"]


def test_a_model_switch_leaves_what_each_model_computed(ask):
    """Codex writes a later developer message, which stays in its place: all of the prompt before is reused.

    Each model has a cache of its own: the other one computes the conversation once.
    """
    (switched, *_, first) = [recorded for recorded in recording("codex/resumed") if recorded.method == "POST"]
    added = (switched.body or {})["input"][len((first.body or {})["input"]) :]
    assert "developer" in [item.get("role") for item in added]
    body = {**(switched.body or {}), "tools": (first.body or {})["tools"]}
    again = {**body, "input": [*body["input"], {"role": "user", "content": "Go on."}]}
    bodies = [first.body, {**body, "model": OTHER}, body, {**again, "model": OTHER}, again]
    usages = [checked(events) for _, events in ask([replace(first, body=body) for body in bodies])]
    sizes = [usage["input_tokens"] for usage in usages]
    cached = [usage["input_tokens_details"]["cached_tokens"] for usage in usages]
    assert cached[1] == 0
    shares = {now: round(cached[now] / sizes[before], 3) for before, now in ((0, 2), (1, 3), (2, 4))}
    print(f"the prompt before that is reused, by request: {shares} of {sizes} tokens")
    for before, now in ((0, 2), (1, 3), (2, 4)):
        assert cached[now] >= REUSED * sizes[before] - BLOCK, (now, cached, sizes)
