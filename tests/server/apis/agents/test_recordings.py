"""Recorded sessions of coding agents, request by request: statuses, shapes and how much of each prompt is reused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from agent_recordings import Recorded, names, recording
from later import Later
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from scripted_model import serving, write_scripted_model

RESPONSE_EVENT = TypeAdapter(ResponseStreamEvent)
anthropic_types = Later("anthropic.types.beta")
QUICK = ("claude_code_tool_search", "opencode_chat")
"""Recordings that are replayed in every run; the others are breadth."""
REPAIRS = {"Could not process image": "image", "Could not process PDF": "document"}
"""How an error begins → the blocks that Claude Code then replaces by text, in this request and all later ones."""
SEARCH = "web_search_20250305"
"""A tool that is not run here: a request with it alone is a 400, which Claude Code takes for its result."""
MOST_TOKENS = 24
REUSED = 0.98
"""How much of the prompt before is reused."""
CHANGED = {
    ("claude_code_compaction", 8): 0.97,  # the conversation is to be summed up, without its last reminder
    ("claude_code_compaction", 9): 0.85,  # the summary stands for the conversation
    ("claude_code_tool_search", 4): 0.98,  # tools were found
}
"""Requests whose history is another one → how much of the prompt before, or of this one, is reused nevertheless."""


@pytest.fixture(scope="module", params=[False, True], ids=["lenient", "strict"])
def ask(request, tmp_path_factory) -> Iterator[Any]:
    """`ask(recorded)` → its answer, by a template that takes later system messages, and by one that refuses them."""
    folder = tmp_path_factory.mktemp("models")
    write_scripted_model(folder / "scripted", [("", "Done.")], max_context=131072, strict=request.param)
    runner = asyncio.Runner()
    context = serving(folder)
    client = runner.run(context.__aenter__())

    def send(recorded: Recorded) -> Any:
        body = b"" if recorded.body is None else json.dumps(bounded(recorded)).encode()
        headers = {"content-type": "application/json", **recorded.headers}
        return runner.run(client.ask(recorded.method, recorded.path, body, headers))

    yield send
    runner.run(context.__aexit__(None, None, None))
    runner.close()


def bounded(recorded: Recorded) -> dict[str, Any]:
    """The body with a small limit of its reply: a grammar may want more than the script has."""
    body = dict(recorded.body or {})
    if "count_tokens" in recorded.path:
        return body
    if "contents" in body:
        return {
            **body,
            "generationConfig": {**body.get("generationConfig", {}), "maxOutputTokens": MOST_TOKENS},
        }
    name = "max_output_tokens" if "input" in body else "max_tokens"
    thinking = body.get("thinking") or {}
    return {**body, name: MOST_TOKENS + thinking.get("budget_tokens", 0)}


def events(answer: Any) -> list[Any]:
    blocks = [block for block in answer.body.decode().split("\n\n") if "data: " in block]
    data = [block.partition("data: ")[2] for block in blocks]
    return [json.loads(each) for each in data if each != "[DONE]"]


SEVERAL = ("claude_code_36_reads",)
"""Recordings of several conversations with one system text."""


def usage_of(recorded: Recorded, answer: Any) -> tuple[int, int]:
    """(tokens of the prompt, how many of them were reused) of an answer whose shape the clients' types accept."""
    streams = bool((recorded.body or {}).get("stream")) or "stream" in recorded.path
    if "/messages" in recorded.path:
        return _usage_of_messages(answer, streams)
    if "/responses" in recorded.path:
        response_events = [RESPONSE_EVENT.validate_python(event, strict=True) for event in events(answer)]
        usage = response_events[-1].response.usage
        return usage.input_tokens, usage.input_tokens_details.cached_tokens
    if "v1beta" in recorded.path:
        usage = events(answer)[-1]["usageMetadata"]
        return usage["promptTokenCount"], usage["cachedContentTokenCount"]
    if streams:
        chunks = [ChatCompletionChunk.model_validate(event) for event in events(answer)]
        usage = chunks[-1].usage
        if not (recorded.body or {}).get("stream_options"):
            return 0, 0
    else:
        usage = ChatCompletion.model_validate(answer.json).usage
    return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens


@cache
def message_event() -> TypeAdapter[Any]:
    return TypeAdapter(anthropic_types.BetaRawMessageStreamEvent)


def _usage_of_messages(answer: Any, streams: bool) -> tuple[int, int]:
    if streams:
        shown = [event for event in events(answer) if event["type"] != "ping"]  # which the client skips
        found = [message_event().validate_python(event) for event in shown]
        assert found[-1].type == "message_stop"
        (usage,) = [event.usage for event in found if event.type == "message_delta"]
    else:
        usage = anthropic_types.BetaMessage.model_validate(answer.json).usage
    return usage.input_tokens + usage.cache_read_input_tokens, usage.cache_read_input_tokens


def check_other(recorded: Recorded, answer: Any) -> None:
    """A request that is answered without a prompt's usage."""
    if "count_tokens" in recorded.path:
        assert anthropic_types.BetaMessageTokensCount.model_validate(answer.json).input_tokens > 0
    elif recorded.method == "GET":
        assert [model["id"] for model in answer.json["data"]] == ["scripted"]


def is_generation(recorded: Recorded) -> bool:
    return recorded.method == "POST" and "count_tokens" not in recorded.path


def without(kind: str, value: Any) -> Any:
    """A body with a text in place of each block of a kind, as Claude Code repairs its history."""
    if isinstance(value, list):
        return [without(kind, each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == kind and "source" in value:
        return {"type": "text", "text": f"[{kind} removed]"}
    return {key: without(kind, each) for key, each in value.items()}


class Session:
    """A client that sends what was recorded, and repairs its history as Claude Code does."""

    def __init__(self, ask: Any) -> None:
        self._ask = ask
        self.removed: list[str] = []  # kinds of blocks

    def answer(self, recorded: Recorded) -> Any:
        for kind in self.removed:
            recorded = replace(recorded, body=without(kind, recorded.body))
        answer = self._ask(recorded)
        text = answer.json["error"]["message"] if answer.status == 400 else ""
        kind = next((kind for words, kind in REPAIRS.items() if text.startswith(words)), None)
        if kind is None:
            return answer
        assert kind not in self.removed, text
        self.removed.append(kind)
        return self.answer(recorded)


def beginning(recorded: Recorded) -> str:
    """What requests of one conversation have alike: the system's text, and whether there are tools."""
    body = recorded.body or {}
    turns = body.get("messages") or body.get("input") or []
    first = body.get("system") or body.get("systemInstruction") or turns[0]
    return json.dumps([first, bool(body.get("tools"))])


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.breadth) for name in names()]
)
def test_a_session_is_served_and_its_prompts_are_reused(ask, name):
    session, num_removed = Session(ask), 0
    earlier: dict[str, int] = {}  # beginning of a conversation → tokens of its last prompt
    for recorded in recording(name):
        answer = session.answer(recorded)
        where = (name, recorded.exchange)
        if [tool.get("type") for tool in (recorded.body or {}).get("tools") or []] == [SEARCH]:
            assert answer.status == 400
            assert SEARCH in answer.json["error"]["message"]
            continue
        assert answer.status == 200 or recorded.method == "HEAD", (where, answer.body[:500])
        if not is_generation(recorded):
            check_other(recorded, answer)
            continue
        prompt, cached = usage_of(recorded, answer)
        before = earlier.get(beginning(recorded))
        if before and name not in SEVERAL and num_removed == len(session.removed):
            assert cached >= CHANGED.get(where, REUSED) * min(before, prompt), (where, cached, prompt)
        num_removed, earlier[beginning(recorded)] = len(session.removed), prompt


@pytest.mark.breadth
def test_claude_code_s_images_and_files_are_refused_in_its_words(ask):
    session = Session(ask)
    for recorded in recording("claude_code_36_reads"):
        session.answer(recorded)
    assert session.removed == ["image", "document"]
