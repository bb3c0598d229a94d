"""A guard that refuses the arguments of a call: what clients of each API read has whole calls, or none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from documents import ROOT
from later import Later
from scripted_model import GRAPH as SCRIPTED
from scripted_model import call, held_open, write_scripted_model

anthropic, openai = Later("anthropic"), Later("openai")

GOOD = "Buy milk"
BAD = "The ending was terrible, boring and a complete waste of time, awful acting, I hated it."
WHOLE = {"text": GOOD}
REFUSED = call("note", text=GOOD, more=f"{BAD} {BAD} {BAD}")
REPLIES = [
    ("first", REFUSED),
    ("second", f"{call('note', **WHOLE)}\n{REFUSED}"),
    ("fine", call("note", **WHOLE)),
]
GRAPH = """\
version: 1
task: chat
nodes:
  reply: {type: guard, graph: talk, by: feelings, from: request, every: 4, labels: [negative], checks: [reply]}
"""
PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOL = {"name": "note", "description": "Writes a note", "parameters": PARAMETERS}
FUNCTION = {"type": "function", "function": TOOL}
Seen = tuple[list[Any], str | None]
"""The calls that a client sees, each by its arguments, and the reason of the reply's end in the words of its API."""


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    free = SCRIPTED.replace("      allowed:", "      #").replace("from: allowed", "from: logits")
    write_scripted_model(folder / "talk", REPLIES, graph=free)
    shutil.copytree(ROOT / "model_repo" / "braid-sentiment", folder / "feelings")
    (folder / "guarded").mkdir()
    (folder / "guarded" / "graph.yaml").write_text(GRAPH)
    with held_open(folder, responses_store=False) as play:
        yield play


def of_openai(client):
    http = httpx2.AsyncClient(transport=httpx2.ASGITransport(client._app))
    return openai.AsyncOpenAI(base_url="http://test/v1", api_key="x", http_client=http, max_retries=0)


def of_anthropic(client):
    http = httpx2.AsyncClient(transport=httpx2.ASGITransport(client._app))
    return anthropic.AsyncAnthropic(base_url="http://test", api_key="x", http_client=http, max_retries=0)


def chat(text):
    return {
        "model": "guarded",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 200,
    }


async def whole_chat(client, text) -> Seen:
    reply = await of_openai(client).chat.completions.create(**chat(text), tools=[FUNCTION])
    (choice,) = reply.choices
    return [made.function.arguments for made in choice.message.tool_calls or []], choice.finish_reason


async def streamed_chat(client, text) -> Seen:
    arguments, finish = {}, None
    asked = await of_openai(client).chat.completions.create(**chat(text), tools=[FUNCTION], stream=True)
    async for chunk in asked:
        for piece in chunk.choices[0].delta.tool_calls or []:
            arguments[piece.index] = arguments.get(piece.index, "") + (piece.function.arguments or "")
        finish = chunk.choices[0].finish_reason or finish
    return [*arguments.values()], finish


async def helped_chat(client, text) -> Seen:
    """By the helper of OpenAI's client, which raises where a filter ended the reply."""
    done = []
    try:
        async with of_openai(client).chat.completions.stream(**chat(text), tools=[FUNCTION]) as stream:
            async for event in stream:
                if event.type == "tool_calls.function.arguments.done":
                    done.append(event.arguments)
            return done, (await stream.get_final_completion()).choices[0].finish_reason
    except openai.ContentFilterFinishReasonError:
        return done, "content_filter"


TOOL_OF_ANTHROPIC = {"name": "note", "input_schema": PARAMETERS}


def of_message(message) -> Seen:
    return [block.input for block in message.content if block.type == "tool_use"], message.stop_reason


async def whole_message(client, text) -> Seen:
    return of_message(await of_anthropic(client).messages.create(**chat(text), tools=[TOOL_OF_ANTHROPIC]))


async def streamed_message(client, text) -> Seen:
    async with of_anthropic(client).messages.stream(**chat(text), tools=[TOOL_OF_ANTHROPIC]) as stream:
        return of_message(await stream.get_final_message())


RESPONSE = {
    "model": "guarded",
    "max_output_tokens": 200,
    "temperature": 0,
    "tools": [{"type": "function", "strict": False, **TOOL}],
}


def of_response(response) -> Seen:
    calls = [item for item in response.output if item.type == "function_call"]
    details = response.incomplete_details
    return [item.arguments for item in calls], response.status if details is None else details.reason


async def whole_response(client, text) -> Seen:
    return of_response(await of_openai(client).responses.create(input=text, **RESPONSE))


async def streamed_response(client, text) -> Seen:
    async with of_openai(client).responses.stream(input=text, **RESPONSE) as stream:
        events = [event async for event in stream]
    begun = [event for event in events if event.type == "response.output_item.added"]
    assert len(begun) == len(events[-1].response.output)
    return of_response(events[-1].response)


def lines_of(answer) -> list[Any]:
    assert answer.status == 200, answer.body
    lines = answer.body.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line]


async def gemini(client, text, method) -> Seen:
    body = {
        "contents": [{"role": "user", "parts": [{"text": text}]}],
        "tools": [{"functionDeclarations": [TOOL]}],
        "generationConfig": {"maxOutputTokens": 200, "temperature": 0},
    }
    answer = await client.post(f"/v1beta/models/guarded:{method}", body)
    pieces = [answer.json] if method == "generateContent" else lines_of(answer)
    candidates = [piece["candidates"][0] for piece in pieces if piece.get("candidates")]
    parts = [part for candidate in candidates for part in candidate.get("content", {}).get("parts", [])]
    return [part["functionCall"]["args"] for part in parts if "functionCall" in part], candidates[-1][
        "finishReason"
    ]


async def whole_gemini(client, text) -> Seen:
    return await gemini(client, text, "generateContent")


async def streamed_gemini(client, text) -> Seen:
    return await gemini(client, text, "streamGenerateContent?alt=sse")


async def ollama(client, text, stream) -> Seen:
    body = {
        **chat(text),
        "tools": [FUNCTION],
        "stream": stream,
        "options": {"num_predict": 200, "temperature": 0},
    }
    lines = lines_of(await client.post("/api/chat", body))
    calls = [
        asked["function"]["arguments"] for line in lines for asked in line["message"].get("tool_calls") or []
    ]
    return calls, lines[-1]["done_reason"]


async def whole_ollama(client, text) -> Seen:
    return await ollama(client, text, stream=False)


async def streamed_ollama(client, text) -> Seen:
    return await ollama(client, text, stream=True)


APIS: dict[Callable[..., Awaitable[Seen]], tuple[str, str]] = {
    whole_chat: ("content_filter", "tool_calls"),
    streamed_chat: ("content_filter", "tool_calls"),
    helped_chat: ("content_filter", "tool_calls"),
    whole_message: ("refusal", "tool_use"),
    streamed_message: ("refusal", "tool_use"),
    whole_response: ("content_filter", "completed"),
    streamed_response: ("content_filter", "completed"),
    whole_gemini: ("SAFETY", "STOP"),
    streamed_gemini: ("SAFETY", "STOP"),
    whole_ollama: ("stop", "stop"),
    streamed_ollama: ("stop", "stop"),
}
"""What reads a reply, and the reasons of the end of a refused and of another one."""


def arguments(seen: Any) -> Any:
    return json.loads(seen) if isinstance(seen, str) else seen


@pytest.mark.parametrize("read", APIS, ids=lambda read: read.__name__)
def test_a_client_reads_no_half_call(played, read):
    """A whole call before the refused one is sent, unless both came at once and were judged together."""
    refused, called = APIS[read]

    async def scene(client):
        for text, most, reason in (
            ("first", [], refused),
            ("second", [WHOLE], refused),
            ("fine", [WHOLE], called),
        ):
            seen, ended = await read(client, text)
            calls = [arguments(shown) for shown in seen]
            assert (text, calls, ended) == (text, most[: len(calls)], reason)
            assert calls or text != "fine"

    played(scene)
