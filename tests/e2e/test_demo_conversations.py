"""The first conversations of a new user with the shipped model: right, or a short refusal that names a real model."""

from __future__ import annotations

import json
import re

import pytest
from breadth import after
from closed_clients import closed_later
from openai import OpenAI

REFUSED = "make demo-chat"
CONVERSATIONS = [
    ("Hello!", "Hello"),
    ("hey there, what can you do?", "JSON"),
    ("Who made you?", "demo model"),
    ("What is Braid?", "model server"),
    ("How do I use Braid?", "make serve"),
    ("What is the capital of France?", "Paris"),
    ("What is OpenVINO?", "Intel"),
    ("Write a haiku about the sea", "the sea"),
    ("Tell me a joke", r"\?.*[.!]"),
    ("What's 17 * 23?", REFUSED),
    ("What is 128 + 256?", REFUSED),
    ("Count from 1 to 10", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10"),
    ("Translate 'good morning' to French", REFUSED),
    ("Write a Python function that adds two numbers", REFUSED),
    ("Explain what a neural network is in one sentence.", REFUSED),
    (
        "Summarize: The cat sat on the mat all day because it was raining outside and it did not want to get wet.",
        REFUSED,
    ),
    ("What day comes after Monday?", "Tuesday"),
    ("Is water wet?", REFUSED),
    ("Why is the sky blue?", REFUSED),
    ("Bonjour, comment ça va?", REFUSED),
    ("你好", REFUSED),
    ("🙂", f"Hello|{REFUSED}"),
    ("List three fruits", "apples"),
    ("How many r's are in strawberry?", REFUSED),
    ("thanks, bye", f"welcome|Goodbye|{REFUSED}"),
    ("asdfghjkl", REFUSED),
]


def weather(**more: object) -> dict[str, object]:
    """A tool; `more` is written beside its properties."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], **more}
    return function("get_weather", "Current weather of a city", schema)


def function(name: str, description: str, parameters: object) -> dict[str, object]:
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


ZOD = weather(**{"$schema": "https://json-schema.org/draft/2020-12/schema", "additionalProperties": False})
NESTED = function(
    "get_weather",
    "Get the weather for a location",
    {
        "type": "object",
        "properties": {
            "location": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            }
        },
        "required": ["location"],
    },
)
TIMER = function(
    "set_timer",
    "Set a timer",
    {"type": "object", "properties": {"minutes": {"type": "integer"}}, "required": ["minutes"]},
)
STOCK = function(
    "get_stock_price",
    "Get the price of a stock",
    {"type": "object", "properties": {"symbol": {"type": "string"}}, "required": ["symbol"]},
)
LIGHT = function(
    "set_light",
    "Turn a light on or off",
    {
        "type": "object",
        "properties": {
            "room": {"type": "string"},
            "state": {"type": "string", "enum": ["on", "off"]},
        },
        "required": ["room", "state"],
    },
)
OSLO = "What is the weather in Oslo?"
CALLS = [
    ([ZOD], OSLO, "get_weather", {"city": "Oslo"}),
    ([NESTED], OSLO, "get_weather", {"location": {"city": "Oslo"}}),
    ([weather(), TIMER, STOCK], "Set a timer for 5 minutes.", "set_timer", {"minutes": 5}),
    ([weather(), TIMER, STOCK, LIGHT], "What is the price of AAPL?", "get_stock_price", {"symbol": "AAPL"}),
    ([TIMER, STOCK, weather()], OSLO, "get_weather", {"city": "Oslo"}),
    ([LIGHT], "Turn the kitchen light on.", "set_light", {"room": "kitchen", "state": "on"}),
]
RESULTS = [
    ('{"temperature": 22, "condition": "sunny"}', "22.*sunny"),
    ("22 degrees and sunny", "22 degrees and sunny"),
    ("sunny", "sunny"),
    ("42", "42"),
    ("It is raining.", "raining"),
    ("Error: city not found", "city not found"),
    ('{"error": "timeout"}', "timeout"),
]
KEY_ORDERS = [
    ["type", "properties", "required"],
    ["properties", "required", "type"],
    ["additionalProperties", "properties", "required", "type"],
]
"""Of a schema, as people, langchain and pydantic-ai write them."""
WEATHER = {"Oslo": (7, "rain"), "Paris": (21, "sun"), "Rome": (30, "sun"), "Lima": (18, "fog")}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "date": {"type": "string"},
        "participants": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "date", "participants"],
    "additionalProperties": False,
}


@pytest.fixture
def ask(demo):
    client = closed_later(OpenAI(base_url=f"{demo.url}/v1", api_key="none", max_retries=0))

    def chat(*messages, **options):
        roles = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
        return client.chat.completions.create(
            model="braid-demo", messages=roles, max_tokens=150, **options
        ).choices[0]

    return chat


@pytest.mark.parametrize(("question", "expected"), after(12, CONVERSATIONS))
def test_a_first_question_gets_an_answer_or_an_honest_refusal(ask, question, expected):
    reply = ask(question)
    assert re.search(expected, reply.message.content), reply.message.content
    assert reply.finish_reason == "stop"


def test_a_second_question_may_be_short(ask):
    answer = {"role": "assistant", "content": "The capital of Spain is Madrid."}
    assert "Rome" in ask("What is the capital of Spain?", answer, "And of Italy?").message.content


@pytest.mark.parametrize(("tools", "question", "name", "arguments"), after(3, CALLS))
def test_a_tool_of_any_dialect_is_called(ask, tools, question, name, arguments):
    (call,) = ask(question, tools=tools).message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == (name, arguments)


def in_order(tool, keys):
    """The tool with its schema's keys in this order."""
    schema = {"additionalProperties": False, **tool["function"]["parameters"]}
    return function(
        tool["function"]["name"], tool["function"]["description"], {key: schema[key] for key in keys}
    )


@pytest.mark.parametrize("keys", after(1, KEY_ORDERS))
def test_the_tool_that_a_question_needs_is_called(ask, keys):
    tools = [in_order(tool, keys) for tool in (weather(), TIMER, STOCK)]
    (call,) = ask("What is the price of AAPL?", tools=tools).message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == (
        "get_stock_price",
        {"symbol": "AAPL"},
    )


@pytest.mark.parametrize("keys", after(1, KEY_ORDERS))
def test_a_tool_is_called_again_for_each_question(ask, keys):
    """Four questions in one conversation; all earlier messages are sent again."""
    tools = [in_order(weather(), keys)]
    messages = []
    for city, (temperature, condition) in WEATHER.items():
        messages.append(f"What is the weather in {city}?")
        messages.append(ask(*messages, tools=tools).message)
        (call,) = messages[-1].tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": city})
        result = json.dumps({"temperature": temperature, "condition": condition})
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        messages.append(ask(*messages, tools=tools).message)
        assert str(temperature) in messages[-1].content


@pytest.mark.parametrize(("result", "expected"), after(3, RESULTS))
def test_a_tool_may_answer_in_any_form(ask, result, expected):
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Boston"}'},
    }
    reply = ask(
        "What is the weather in Boston?",
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": result},
        tools=[weather()],
    )
    assert re.search(expected, reply.message.content), reply.message.content


def test_text_becomes_json_of_a_schema_and_ends(ask):
    schema = {"name": "event", "schema": SCHEMA, "strict": True}
    reply = ask(
        {"role": "system", "content": "Extract the event information."},
        "Alice and Bob are going to a science fair on Friday.",
        response_format={"type": "json_schema", "json_schema": schema},
    )
    assert reply.finish_reason == "stop"
    assert json.loads(reply.message.content) == {
        "name": "science fair",
        "date": "Friday",
        "participants": ["Alice", "Bob"],
    }
