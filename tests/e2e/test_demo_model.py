"""What a new user does first: requests of the `openai` client to the shipped model behind a real server."""

import json

import pytest
from closed_clients import closed_later
from openai import OpenAI

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


@pytest.fixture
def ask(demo):
    client = closed_later(OpenAI(base_url=f"{demo.url}/v1", api_key="none", max_retries=0))

    def chat(question, **options):
        messages = question if isinstance(question, list) else [{"role": "user", "content": question}]
        return client.chat.completions.create(model="braid-demo", messages=messages, **options)

    return chat


def test_the_capital_of_france_is_paris(ask):
    reply = ask("What is the capital of France?").choices[0]
    assert "Paris" in reply.message.content
    assert reply.finish_reason == "stop"


def test_a_declared_tool_is_called_with_the_right_city(ask):
    reply = ask("What is the weather in Oslo?", tools=[WEATHER]).choices[0]
    (call,) = reply.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Oslo"})
    assert (reply.finish_reason, reply.message.content) == ("tool_calls", None)


def test_a_streamed_call_is_the_same_call(ask):
    chunks = list(ask("What is the weather in Oslo?", tools=[WEATHER], stream=True))
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert "".join(call.function.name or "" for call in calls) == "get_weather"
    assert json.loads("".join(call.function.arguments or "" for call in calls)) == {"city": "Oslo"}
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_the_reply_uses_the_tool_result(ask):
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
    }
    reply = ask(
        [
            {"role": "user", "content": "What is the weather in Oslo?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": '{"temperature": 21, "condition": "sunny"}'},
        ],
        tools=[WEATHER],
    )
    assert "21" in reply.choices[0].message.content


def test_text_becomes_json(ask):
    reply = ask("Extract name and age as JSON: Anna is 31 years old.")
    assert json.loads(reply.choices[0].message.content) == {"name": "Anna", "age": 31}


def test_reasoning_is_separate_from_content(ask):
    reply = ask("What is 8 + 7?", extra_body={"chat_template_kwargs": {"enable_thinking": True}})
    message = reply.choices[0].message
    assert "15" in message.content
    assert message.reasoning
    assert "<think>" not in message.content + message.reasoning


def test_without_thinking_there_is_no_reasoning(ask):
    assert ask("What is 12 + 7?").choices[0].message.reasoning is None


def test_the_conversation_before_is_found_in_the_cache(ask):
    messages = [{"role": "user", "content": "Hello! " + "I like tea and long walks. " * 20}]
    ask(messages, max_tokens=4)
    again = ask(
        [*messages, {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Hi!"}],
        max_tokens=4,
    )
    assert again.usage.prompt_tokens_details.cached_tokens > 32


def test_a_schema_that_asks_for_what_the_text_does_not_have_ends(ask):
    """The model may not find the end of a string; the default of its folder does."""
    address = {name: {"type": "string"} for name in ("id", "street", "zip")}
    order = {"type": "object", "properties": address, "required": list(address)}
    mail = {
        "type": "object",
        "properties": {"order": order, "subject": {"type": "string"}, "body": {"type": "string"}},
        "required": ["order", "subject", "body"],
    }
    schema = {"type": "json_schema", "json_schema": {"name": "mail", "schema": mail}}
    reply = ask("Extract the order as JSON: the weather is nice.", response_format=schema)
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage.completion_tokens == 512
