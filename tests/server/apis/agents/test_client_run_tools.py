"""OpenAI's tools that the client runs (shell, local_shell, apply_patch), read with the types of its client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from every_case import every_case
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from scripted_model import call, serving, write_scripted_model

EVENT = TypeAdapter(ResponseStreamEvent)
DIFF = "@@ def f():\n-    return 1\n+    return 2\n"
REPLIES = [
    ("List it", "I look." + call("shell", commands=["ls", "pwd"], timeout_ms=500)),
    ("Run it", call("local_shell", command=["bash", "-lc", "ls"], working_directory="/w")),
    ("Change it", call("apply_patch", type="update_file", path="a.py", diff=DIFF)),
    ("Make it", call("apply_patch", type="create_file", path="b.py")),
    ("Remove it", call("apply_patch", type="delete_file", path="a.py", diff="x")),
    ("exit code: 0", "Two files."),
    ("a.py b.py", "Two files."),
    ("failed", "It did not fit."),
]
SHELL, LOCAL, PATCH = {"type": "shell"}, {"type": "local_shell"}, {"type": "apply_patch"}
ACTION = {"commands": ["ls", "pwd"], "timeout_ms": 500, "max_output_length": None}
EXEC = {"type": "exec", "command": ["bash", "-lc", "ls"], "env": {}, "working_directory": "/w"}
UPDATE = {"type": "update_file", "path": "a.py", "diff": DIFF}
WROTE = [
    {"stdout": "a.py\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
    {"stdout": "", "stderr": "no\n", "outcome": {"type": "timeout"}},
]
CALLS = [
    ("List it", SHELL, "action", ACTION, {"output": WROTE}, "Two files."),
    (
        "Run it",
        LOCAL,
        "action",
        {**EXEC, "timeout_ms": None, "user": None},
        {"output": "a.py b.py"},
        "Two files.",
    ),
    ("Change it", PATCH, "operation", UPDATE, {"status": "failed", "output": "no place"}, "It did not fit."),
]


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """`ask(items)` → the answer of a server that all tests share."""
    folder = tmp_path_factory.mktemp("models")
    write_scripted_model(folder / "scripted", REPLIES)
    with asyncio.Runner() as runner:
        context = serving(folder)
        client = runner.run(context.__aenter__())

        def post(*items: Any, **more: Any) -> Any:
            said = [{"role": "user", "content": item} if isinstance(item, str) else item for item in items]
            return runner.run(client.post("/v1/responses", {"model": "scripted", "input": said, **more}))

        yield post
        runner.run(context.__aexit__(None, None, None))


def output(answer):
    assert answer.status == 200, answer.body
    Response.model_validate(answer.json, strict=True)
    return answer.json["output"]


@every_case(("asked", "tool", "field", "value", "result", "told"), CALLS)
def test_a_call_has_its_own_item_and_its_result_is_read(ask, asked, tool, field, value, result, told):
    *_, called = output(ask(asked, tools=[tool]))
    kind = tool["type"]
    assert (called["type"], called["status"], called[field]) == (f"{kind}_call", "completed", value)
    back = {"type": f"{kind}_call_output", "call_id": called["call_id"], **result}
    (said,) = output(ask(asked, called, back, tools=[tool]))
    assert said["content"][0]["text"] == told


def test_a_result_of_a_local_shell_may_name_its_call_by_its_id(ask):
    (called,) = output(ask("Run it", tools=[LOCAL]))
    back = {"type": "local_shell_call_output", "id": called["call_id"], "output": "a.py b.py"}
    (said,) = output(ask("Run it", called, back, tools=[LOCAL]))
    assert said["content"][0]["text"] == "Two files."


@every_case(
    ("asked", "operation"),
    [
        ("Make it", {"type": "create_file", "path": "b.py", "diff": ""}),
        ("Remove it", {"type": "delete_file", "path": "a.py"}),
    ],
)
def test_operations_have_the_fields_of_their_kind(ask, asked, operation):
    (called,) = output(ask(asked, tools=[PATCH]))
    assert called["operation"] == operation


@every_case(("asked", "tool"), [(asked, tool) for asked, tool, *_ in CALLS])
def test_streams_are_read_by_openais_client(ask, asked, tool):
    answer = ask(asked, tools=[tool], stream=True)
    events = [
        json.loads(line.removeprefix("data: "))
        for line in answer.body.decode().split("\n")
        if line.startswith("data: {")
    ]
    for event in events:
        EVENT.validate_python(event, strict=True)
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done[-1] == events[-1]["response"]["output"][-1]
    assert done[-1]["type"] == f"{tool['type']}_call"


@every_case("tool", [SHELL, LOCAL, PATCH])
def test_a_choice_names_a_tool_by_its_type(ask, tool):
    answer = ask("Hello", tools=[SHELL, LOCAL, PATCH], tool_choice=tool, max_output_tokens=2000)
    assert (answer.status, answer.json["tool_choice"]) == (200, tool)
    assert answer.json["output"][-1]["type"] == f"{tool['type']}_call"
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [tool]}
    assert ask("Hello", tools=[SHELL, LOCAL, PATCH], tool_choice=allowed, max_output_tokens=5).status == 200
    others = [other for other in (SHELL, LOCAL, PATCH) if other != tool]
    for choice in (tool, allowed):
        wrong = ask("Hello", tools=others, tool_choice=choice)
        assert (wrong.status, "not found in 'tools'" in wrong.error["message"]) == (400, True), wrong.body


def test_a_shell_of_the_services_own_is_left_out(ask):
    container = {"type": "shell", "environment": {"type": "container_auto"}}
    answer = ask("Run it", tools=[container, LOCAL])
    assert answer.headers["x-braid-ignored-fields"] == "tools;type=shell.container_auto"
    local = {"type": "shell", "environment": {"type": "local"}}
    assert output(ask("List it", tools=[local]))[-1]["type"] == "shell_call"


@every_case("kind", ["computer", "computer_use_preview"])
def test_a_computer_is_refused_by_name(ask, kind):
    answer = ask("hi", tools=[{"type": kind}, SHELL])
    assert (answer.status, answer.error["param"]) == (400, "tools.0.type")
    assert f"`{kind}` is not supported: models here" in answer.error["message"]


@every_case(
    ("item", "field"),
    [
        ({"type": "shell_call", "action": {"commands": "ls"}}, "input.0.action.commands"),
        ({"type": "shell_call_output", "call_id": "c", "output": "x"}, "input.0.output"),
        ({"type": "local_shell_call", "action": {}}, "input.0.action.command"),
        ({"type": "local_shell_call_output", "id": "c"}, "input.0.output"),
        ({"type": "apply_patch_call", "operation": {"type": "move", "path": "a"}}, "input.0.operation.type"),
        ({"type": "apply_patch_call_output", "call_id": "c", "status": "x"}, "input.0.status"),
    ],
)
def test_wrong_items_are_named(ask, item, field):
    answer = ask(item, "hi", tools=[SHELL])
    assert (answer.status, answer.error["param"]) == (400, field)
