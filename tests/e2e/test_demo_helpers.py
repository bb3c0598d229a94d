"""What the official client offers beyond plain calls: helpers that stream, parse and call, sync and async."""

from __future__ import annotations

import asyncio
import json

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel, Field

MODEL = "braid-demo"
OSLO = [{"role": "user", "content": "What is the weather in Oslo?"}]
FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
ADA = [{"role": "user", "content": "Ada is 36 years old. Write name and age as JSON."}]


class GetWeather(BaseModel):
    """Current weather of a city"""

    city: str


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int


TOOL = openai.pydantic_function_tool(GetWeather, name="get_weather")  # strict


@pytest.fixture
def chat(demo):
    with OpenAI(base_url=f"{demo.url}/v1", api_key="none", max_retries=0) as client:
        yield client.chat.completions


def test_parse_returns_the_requested_type(chat):
    reply = chat.parse(model=MODEL, messages=ADA, response_format=Person, max_tokens=100)
    assert reply.choices[0].message.parsed == Person(name="Ada", age=36)


def test_parse_gives_the_arguments_of_a_strict_tool(chat):
    reply = chat.parse(model=MODEL, messages=OSLO, tools=[TOOL])
    (call,) = reply.choices[0].message.tool_calls
    assert call.function.parsed_arguments == GetWeather(city="Oslo")


def test_the_streaming_helper_equals_the_whole_reply(chat):
    with chat.stream(model=MODEL, messages=FRANCE, stream_options={"include_usage": True}) as stream:
        streamed = "".join(event.delta for event in stream if event.type == "content.delta")
        final = stream.get_final_completion()
    plain = chat.create(model=MODEL, messages=FRANCE)
    assert streamed == final.choices[0].message.content == plain.choices[0].message.content
    assert final.usage.completion_tokens == plain.usage.completion_tokens


def test_the_streaming_helper_parses_as_it_goes(chat):
    with chat.stream(model=MODEL, messages=ADA, response_format=Person, max_tokens=100) as stream:
        done = [event.parsed for event in stream if event.type == "content.done"]
    assert done == [Person(name="Ada", age=36)]


def test_the_streaming_helper_joins_a_call(chat):
    with chat.stream(model=MODEL, messages=OSLO, tools=[TOOL]) as stream:
        pieces = [e.arguments_delta for e in stream if e.type == "tool_calls.function.arguments.delta"]
        (call,) = stream.get_final_completion().choices[0].message.tool_calls
    assert len(pieces) > 1
    assert "".join(pieces) == call.function.arguments
    assert call.function.parsed_arguments == GetWeather(city="Oslo")


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_call_that_must_be_made_is_made(chat, choice):
    reply = chat.create(model=MODEL, messages=OSLO, tools=[TOOL], tool_choice=choice).choices[0]
    (call,) = reply.message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Oslo"}
    assert (reply.message.content, reply.finish_reason) == (
        "",
        "tool_calls" if choice == "required" else "stop",
    )


def test_the_reply_uses_the_result_of_a_call(chat):
    call = chat.create(model=MODEL, messages=OSLO, tools=[TOOL]).choices[0].message
    result = {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": '{"temperature": 7}'}
    reply = chat.create(model=MODEL, messages=[*OSLO, call, result], tools=[TOOL])
    assert "7" in reply.choices[0].message.content


def test_the_thinking_budget_ends_the_reasoning(chat):
    messages = [{"role": "user", "content": "What is 12 + 7?"}]
    extra = {"chat_template_kwargs": {"enable_thinking": True}, "thinking_token_budget": 3}
    reply = chat.create(model=MODEL, messages=messages, max_tokens=60, extra_body=extra)
    assert reply.usage.completion_tokens_details.reasoning_tokens == 3
    assert reply.choices[0].message.content


def test_the_content_after_reasoning_is_one_of_the_choices(chat):
    extra = {
        "chat_template_kwargs": {"enable_thinking": True},
        "structured_outputs": {"choice": ["Paris", "Rome"]},
    }
    message = chat.create(model=MODEL, messages=FRANCE, max_tokens=80, extra_body=extra).choices[0].message
    assert message.reasoning
    assert message.content in ("Paris", "Rome")


def test_the_async_client_does_the_same(demo):
    async def ask() -> None:
        async with AsyncOpenAI(base_url=f"{demo.url}/v1", api_key="none", max_retries=0) as client:
            chat = client.chat.completions
            replies = await asyncio.gather(
                chat.parse(model=MODEL, messages=ADA, response_format=Person, max_tokens=100),
                chat.create(model=MODEL, messages=FRANCE),
            )
            assert replies[0].choices[0].message.parsed == Person(name="Ada", age=36)
            async with chat.stream(model=MODEL, messages=FRANCE) as stream:
                streamed = "".join([event.delta async for event in stream if event.type == "content.delta"])
            assert streamed == replies[1].choices[0].message.content

    asyncio.run(ask())
