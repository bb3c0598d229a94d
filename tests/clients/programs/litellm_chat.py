"""litellm, as its proxy and its library speak to a vLLM server.  Arguments: the server's address."""

import json
import os
import sys

from cases import run

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices

import litellm
import pytest

URL = sys.argv[1]
COMMON = {"model": "hosted_vllm/braid-demo", "api_base": f"{URL}/v1", "api_key": "none"}
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


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def chat() -> None:
    reply = litellm.completion(messages=user("What is the capital of France?"), temperature=0, **COMMON)
    assert "Paris" in reply.choices[0].message.content
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def stream() -> None:
    chunks = list(
        litellm.completion(
            messages=user("What is the capital of France?"),
            stream=True,
            stream_options={"include_usage": True},
            **COMMON,
        )
    )
    assert "Paris" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert chunks[-1].usage.completion_tokens > 0


def tools() -> None:
    question = user("What is the weather in Oslo?")
    reply = litellm.completion(messages=question, tools=[WEATHER], **COMMON)
    (call,) = reply.choices[0].message.tool_calls
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Oslo"}


def required_tool() -> None:
    question = user("What is the weather in Oslo?")
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        reply = litellm.completion(messages=question, tools=[WEATHER], tool_choice=choice, **COMMON)
        assert json.loads(reply.choices[0].message.tool_calls[0].function.arguments) == {"city": "Oslo"}


def streamed_tools() -> None:
    question = user("What is the weather in Oslo?")
    chunks = list(litellm.completion(messages=question, tools=[WEATHER], stream=True, **COMMON))
    whole = litellm.stream_chunk_builder(chunks, messages=question)
    (call,) = whole.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Oslo"}
    assert whole.choices[0].finish_reason == "tool_calls"


def schema() -> None:
    person = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    reply = litellm.completion(
        messages=user("Ada is 36 years old. Write name and age as JSON."),
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": person}},
        max_tokens=80,
        **COMMON,
    )
    assert set(json.loads(reply.choices[0].message.content)) == {"name", "age"}


def text_completion() -> None:
    reply = litellm.text_completion(prompt="Once upon a time", max_tokens=4, temperature=0, **COMMON)
    assert reply.usage.completion_tokens == 4


def bad_request() -> None:
    with pytest.raises(litellm.BadRequestError, match="temperature"):
        litellm.completion(messages=user("Hi"), temperature=9, num_retries=0, **COMMON)


run([chat, stream, tools, required_tool, streamed_tools, schema, text_completion, bad_request])
