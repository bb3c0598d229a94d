"""What the `openai` client sends beyond the usual, and what it reads of the replies: the shipped models."""

from __future__ import annotations

import json

import pytest
from closed_clients import closed_later
from openai import OpenAI

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
