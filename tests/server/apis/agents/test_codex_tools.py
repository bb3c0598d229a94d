"""Codex's kinds of tools over POST /v1/responses: namespaces, custom tools with a grammar, tool search."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from codex_tools import APPLY_PATCH, EXEC, MCP, SEARCH, WEB_SEARCH, function
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from scripted_model import call, serving, write_scripted_model

EVENT = TypeAdapter(ResponseStreamEvent)
PATCH = '*** Begin Patch\n*** Add File: a.py\n+print("é\\n")\t1\n*** End Patch\n'
FOUND = function("tool_9", word="string")
REPLIES = [
    ("Patch it", "I will." + call("apply_patch", input=PATCH)),
    ("Break it", call("apply_patch", input="*** Begin Patch\n+x\n*** End Patch\n")),
    ("Call two", call("mcp__many__exec_command", cmd="ls") + "\n" + call("exec_command", cmd="pwd")),
    ("Search", call("tool_search", query="nine")),
    ("tool_9", call("mcp__nine__tool_9", word="x")),
    ("Number", call("count", input="12")),
    ("Write a summary of this", "<think>\nHm.\n</think>\n\nThe user wants 42."),
    ("The user wants 42.", "42"),
]
TOOLS = [EXEC, APPLY_PATCH, SEARCH, MCP, WEB_SEARCH]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_scripted_model(folder / "scripted", REPLIES)
    return folder


@pytest.fixture(scope="module")
def ask(folder):
    """`ask(body)` → the answer of a server that all tests share."""
    runner = asyncio.Runner()
    context = serving(folder)
    client = runner.run(context.__aenter__())

    def post(*items: Any, **more: Any) -> Any:
        items_given = [{"role": "user", "content": item} if isinstance(item, str) else item for item in items]
        body = {"model": "scripted", "input": items_given, "tools": TOOLS, "store": False, **more}
        return runner.run(client.post(more.pop("path", "/v1/responses"), body))

    yield post
    runner.run(context.__aexit__(None, None, None))
    runner.close()


def output(answer: Any) -> list[dict[str, Any]]:
    assert answer.status == 200, answer.body
    Response.model_validate(answer.json, strict=True)
    return answer.json["output"]


def events(answer: Any) -> list[dict[str, Any]]:
    """The events of a stream, each read by the client's own types."""
    assert answer.status == 200, answer.body
    lines = [line for line in answer.body.decode().splitlines() if line.startswith("data: {")]
    found = [json.loads(line.removeprefix("data: ")) for line in lines]
    for event in found:
        assert EVENT.validate_python(event).type == event["type"]
    return found


def test_a_custom_tool_gives_a_text(ask):
    message, made = output(ask("Patch it"))
    assert message["content"][0]["text"] == "I will."
    assert (made["type"], made["name"], made["input"]) == ("custom_tool_call", "apply_patch", PATCH)
    assert made["call_id"]
    assert made["id"].startswith("ctc_")


def test_its_events_give_the_text_in_pieces(ask):
    found = events(ask("Patch it", stream=True))
    pieces = [event["delta"] for event in found if event["type"].endswith("custom_tool_call_input.delta")]
    (done,) = [event for event in found if event["type"].endswith("custom_tool_call_input.done")]
    assert len(pieces) > 5
    assert "".join(pieces) == done["input"] == PATCH
    assert found[-1]["response"]["output"][-1]["input"] == PATCH


def test_a_patch_that_its_grammar_forbids_is_not_written(ask):
    (made,) = output(ask("Break it", max_output_tokens=120))
    assert made["input"].startswith("*** Begin Patch\n*** ")


def test_tools_of_a_server_are_left_out_and_named(ask):
    answer = ask("Patch it")
    assert answer.headers["x-braid-ignored-fields"] == "tools;type=web_search"
    assert [tool["type"] for tool in answer.json["tools"]] == [
        "function",
        "custom",
        "tool_search",
        "namespace",
    ]
    assert ask("Patch it", tools=[WEB_SEARCH]).status == 400
    assert ask("Patch it", tool_choice={"type": "web_search"}).status == 400


def test_a_call_names_its_namespace(ask):
    of_server, own = output(ask("Call two"))
    assert (of_server["name"], of_server["namespace"]) == ("exec_command", "mcp__many")
    assert (own["name"], own["namespace"]) == ("exec_command", None)


def test_found_tools_can_be_called(ask):
    (search,) = output(ask("Search"))
    assert (search["type"], search["execution"], search["arguments"]) == (
        "tool_search_call",
        "client",
        {"query": "nine"},
    )
    tools = [{"type": "namespace", "name": "mcp__nine", "description": "Nine.", "tools": [FOUND]}]
    result = {
        "type": "tool_search_output",
        "call_id": search["call_id"],
        "execution": "client",
        "tools": tools,
    }
    (call_made,) = output(ask("Search", search, result))
    assert (call_made["name"], call_made["namespace"], call_made["arguments"]) == (
        "tool_9",
        "mcp__nine",
        '{"word": "x"}',
    )
    more = {"type": "additional_tools", "role": "developer", "tools": tools}
    (call_made,) = output(ask("Use tool_9", more))
    assert call_made["namespace"] == "mcp__nine"


def test_a_regular_expression_holds_a_text(ask):
    format = {"type": "grammar", "syntax": "regex", "definition": r"\d+"}
    tool = {"type": "custom", "name": "count", "format": format}
    (made,) = output(ask("Number", tools=[tool], tool_choice={"type": "custom", "name": "count"}))
    assert made["input"] == "12"


@pytest.mark.parametrize("format", [{"type": "grammar", "syntax": "lark", "definition": "start: nothing"}, 3])
def test_a_grammar_that_is_none_is_named(ask, format):
    answer = ask("Number", tools=[{"type": "custom", "name": "count", "format": format}])
    assert answer.status == 400
    assert "tools" in answer.error["param"]


def test_what_no_grammar_over_json_holds_is_named(ask):
    lark = 'start: "(" start ")" | /"[^"]*"/'
    format = {"type": "grammar", "syntax": "lark", "definition": lark}
    answer = ask("Number", tools=[{"type": "custom", "name": "count", "format": format}])
    assert answer.headers["x-braid-ignored-fields"] == "format;tool=count"
    assert output(answer)[0]["input"] == "12"


def test_a_history_of_all_items_is_read(ask):
    (search,) = output(ask("Search"))
    _, patch = output(ask("Patch it"))
    patched = {"type": "custom_tool_call_output", "call_id": patch["call_id"], "output": "Done."}
    empty = {"type": "tool_search_output", "call_id": search["call_id"], "tools": [], "execution": "client"}
    history = ["a", search, empty, patch, patched]
    assert output(ask(*history, "Call two"))[0]["namespace"] == "mcp__many"


def test_a_compaction_stands_for_a_conversation(ask):
    (made,) = output(ask("Find 42.", {"type": "compaction_trigger"}))
    assert (made["type"], sorted(made)) == ("compaction", ["encrypted_content", "id", "status", "type"])
    assert output(ask(made, "What did I want?"))[0]["content"][0]["text"] == "42"
    found = events(ask("Find 42.", {"type": "compaction_trigger"}, stream=True))
    kinds = [event["type"] for event in found if "output" in event["type"]]
    assert kinds == ["response.output_item.added", "response.output_item.done"]


def test_what_was_compacted_is_left_out_of_the_next_prompt(ask):
    """The conversation is found by its id: the client cannot leave anything out of it."""
    long = {"role": "user", "content": "Find 42. " + "Look at the numbers. " * 200}
    rule = {"role": "developer", "content": "Be short. " * 50}
    first = ask(rule, long, {"type": "compaction_trigger"}, store=True, tools=[])
    assert output(first)
    after = ask("What did I want?", previous_response_id=first.json["id"], store=True, tools=[])
    assert output(after)[0]["content"][0]["text"] == "42"
    used = after.json["usage"]["input_tokens"]
    assert 50 < used < first.json["usage"]["input_tokens"] / 4, "the developer's words and the summary"
    later = ask("And now?", previous_response_id=after.json["id"], tools=[])
    assert later.json["usage"]["input_tokens"] < used + 100


def test_a_compaction_of_another_service_is_named(ask):
    foreign = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAA=="}
    answer = ask(foreign, "Call two")
    assert output(answer)
    assert "encrypted_content;type=compaction" in answer.headers["x-braid-ignored-fields"]
