"""What the `openai` client sends beyond the usual, and what it reads of the replies: the shipped models."""

from __future__ import annotations

import json

import pytest
from closed_clients import closed_later
from openai import BadRequestError, OpenAI

MODEL = "braid-demo"
OSLO = "What is the weather in Oslo?"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.fixture(scope="module")
def client(demo):
    return closed_later(OpenAI(base_url=f"{demo.url}/v1", api_key="none", max_retries=0))


def until_done(connection):
    """The response that ends next."""
    for event in connection:
        assert event.type != "error", event
        if event.type == "response.done":
            return event.response
    raise AssertionError("the connection ended")


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "name": "get_weather"}])
def test_a_conversation_with_a_call_goes_on(client, choice):
    with client.realtime.connect(model=MODEL) as connection:
        session = {"type": "realtime", "tools": [WEATHER], "tool_choice": choice}
        connection.session.update(session=session)
        parts = [{"type": "input_text", "text": OSLO}]
        connection.conversation.item.create(item={"type": "message", "role": "user", "content": parts})
        connection.response.create()
        asked = until_done(connection)
        (call,) = asked.output
        assert (asked.status, call.status, call.name) == ("completed", "completed", "get_weather")
        assert json.loads(call.arguments) == {"city": "Oslo"}
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "12 degrees, rain"}
        connection.conversation.item.create(item=result)
        connection.response.create(response={"tool_choice": "none"})
        told = until_done(connection)
    assert told.status == "completed"
    assert "12" in told.output[0].content[0].text


def test_a_conversation_that_is_too_long_is_cut_by_turns(client):
    """The shorter conversation leaves room for the reply; without `truncation` the request is refused."""
    most = client.models.retrieve(MODEL).max_model_len
    spoken = [("user", "Hello! " * 20), ("assistant", "Hello! How can I help you? " * 8)] * 100
    asked = [{"role": role, "content": text} for role, text in spoken]
    asked.append({"role": "user", "content": "What is the capital of France?"})
    with pytest.raises(BadRequestError, match="context"):
        client.responses.create(model=MODEL, input=asked, max_output_tokens=200)
    reply = client.responses.create(
        model=MODEL,
        input=asked,
        max_output_tokens=200,
        truncation="auto",
        extra_body={"ignore_eos": True},
    )
    assert most - 400 < reply.usage.input_tokens <= most - 200
    assert reply.usage.output_tokens == 200


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
YES_OR_NO = 'root ::= "yes" | "no"'


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_object", "schema": PERSON}},
        {"response_format": {"type": "json_schema", "schema": PERSON}},
        {"extra_body": {"json_schema": PERSON}},
        {"extra_body": {"json_schema": json.dumps(PERSON)}},
    ],
)
def test_schemas_of_other_servers_hold(client, fields):
    asked = [{"role": "user", "content": "Extract name and age as JSON: Anna is 31 years old."}]
    reply = client.chat.completions.create(model=MODEL, messages=asked, temperature=0, **fields)
    assert json.loads(reply.choices[0].message.content) == {"name": "Anna", "age": 31}


@pytest.mark.parametrize("fields", [{"grammar": YES_OR_NO}, {"ebnf": YES_OR_NO}, {"regex": "yes|no"}])
def test_grammars_of_other_servers_hold(client, fields):
    asked = [{"role": "user", "content": "Hello!"}]
    chat = client.chat.completions.create(model=MODEL, messages=asked, extra_body=fields)
    assert chat.choices[0].message.content in ("yes", "no")
    text = client.completions.create(model=MODEL, prompt="Hello!", extra_body={**fields, "n_predict": -1})
    assert text.choices[0].text in ("yes", "no")


def test_a_limit_of_llama_cpps_name_holds(client):
    asked = [{"role": "user", "content": "Tell me about the sea."}]
    for most in (3, 1_000_000):
        reply = client.chat.completions.create(
            model=MODEL, messages=asked, temperature=0, extra_body={"n_predict": most}
        )
        assert reply.usage.completion_tokens <= most
        assert (reply.choices[0].finish_reason == "length") == (most == 3)


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        (
            "shell",
            {"output": [{"stdout": "a.py", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
        ),
        ("local_shell", {"output": "a.py"}),
        ("apply_patch", {"status": "completed", "output": "done"}),
    ],
)
def test_tools_that_the_client_runs_are_called_and_answered(client, kind, result):
    """By their types alone; the demo model knows none of them, so that the call is forced."""
    asked = [{"role": "user", "content": "Which files are there?"}]
    fields = {"model": MODEL, "tools": [{"type": kind}], "max_output_tokens": 200}
    reply = client.responses.create(input=asked, tool_choice={"type": kind}, **fields)
    call = reply.output[-1]
    assert call.type == f"{kind}_call"
    assert {
        "shell": lambda: call.action.commands,
        "local_shell": lambda: call.action.command,
        "apply_patch": lambda: call.operation.type,
    }[kind]()
    back = {"type": f"{kind}_call_output", "call_id": call.call_id, **result}
    told = client.responses.create(input=[back], previous_response_id=reply.id, tool_choice="none", **fields)
    assert told.output_text
