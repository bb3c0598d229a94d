"""The official `anthropic` client against the shipped model behind the real server."""

from __future__ import annotations

import httpx
import pydantic
import pytest
from breadth import after
from later import Later

anthropic = Later("anthropic")

WEATHER = {
    "name": "get_weather",
    "description": "Current weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
MARKS = 4
"""Tokens of the marks around the thinking, which count as thinking."""
WEATHER_QUESTION = {"role": "user", "content": "What is the weather in Oslo?"}


@pytest.fixture
def client(demo):
    with anthropic.Anthropic(base_url=demo.url, api_key="none", max_retries=2) as made:
        yield made


def arguments(*messages, **more):
    """Of `create`; temperature is not among those that this client knows."""
    asked = {"model": "braid-demo", "max_tokens": 200, "messages": list(messages), **more}
    return {**asked, "extra_body": {"temperature": 0}}


def user(text):
    return {"role": "user", "content": text}


def streamed(client, **asked):
    with client.messages.stream(**asked) as stream:
        return stream.get_final_message()


@pytest.fixture(params=after(1, ["stream", "whole"]))
def ask(request, client):
    """A message, asked whole or as a stream: both must say the same."""
    if request.param == "whole":
        return lambda *messages, **more: client.messages.create(**arguments(*messages, **more))
    return lambda *messages, **more: streamed(client, **arguments(*messages, **more))


def test_a_plain_question(ask):
    message = ask(user("What is the capital of France?"))
    (block,) = message.content
    assert "Paris" in block.text
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens > 0


def test_a_tool_is_called_and_its_result_is_read(ask):
    call = ask(WEATHER_QUESTION, tools=[WEATHER])
    (block,) = call.content
    assert (call.stop_reason, block.name, block.input) == ("tool_use", "get_weather", {"city": "Oslo"})
    result = {"type": "tool_result", "tool_use_id": block.id, "content": '{"temperature": 4, "sky": "rain"}'}
    answer = ask(
        WEATHER_QUESTION,
        {"role": "assistant", "content": call.content},
        {"role": "user", "content": [result]},
        tools=[WEATHER],
    )
    assert answer.content[0].type == "text"
    assert answer.stop_reason == "end_turn"


@pytest.mark.parametrize(
    "choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}], ids=["any", "tool"]
)
def test_a_forced_call_has_valid_arguments(ask, choice):
    message = ask(user("Hello, how are you?"), tools=[WEATHER], tool_choice=choice)
    (block,) = message.content
    assert (message.stop_reason, block.name) == ("tool_use", "get_weather")
    assert isinstance(block.input["city"], str)


class Place(pydantic.BaseModel):
    city: str
    country: str


def test_a_model_class_is_filled(client):
    question = user("The capital of France is Paris. Give city and country.")
    message = client.messages.parse(**arguments(question), output_format=Place)
    assert isinstance(message.parsed_output, Place)
    assert message.parsed_output.city == "Paris"


def test_an_invalid_schema_is_named(client):
    format = {"type": "json_schema", "schema": {"type": "nonsense"}}
    with pytest.raises(anthropic.BadRequestError, match="output_config.format"):
        client.messages.create(**arguments(user("hi"), output_config={"format": format}))


def test_thinking_keeps_its_budget(ask):
    budget = {"type": "enabled", "budget_tokens": 4}
    message = ask(user("What is 17 plus 25?"), thinking=budget)
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.usage.output_tokens_details.thinking_tokens <= 4 + MARKS


def test_thinking_can_be_switched_on(ask):
    message = ask(user("What is 17 plus 25?"), thinking={"type": "adaptive"})
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[0].thinking
    assert "42" in message.content[1].text


def test_max_tokens_is_the_stop_reason(ask):
    message = ask(user("Tell me a story."), max_tokens=4)
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 4)


def test_a_stop_sequence_is_reported(ask):
    message = ask(user("What is the capital of France?"), stop_sequences=["Paris"])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "Paris")


def test_a_limit_beyond_the_context_is_no_fault(ask):
    assert ask(user("What is the capital of France?"), max_tokens=8192).stop_reason == "end_turn"


def test_counted_tokens_are_those_of_the_reply(client):
    asked = {"model": "braid-demo", "messages": [WEATHER_QUESTION], "tools": [WEATHER]}
    counted = client.messages.count_tokens(**asked).input_tokens
    used = client.messages.create(**arguments(WEATHER_QUESTION, tools=[WEATHER])).usage
    assert counted == used.input_tokens + used.cache_read_input_tokens


def test_detokenize_restores_the_text(demo):
    with httpx.Client(base_url=demo.url, verify=False) as http:
        body = {"model": "braid-demo", "messages": [WEATHER_QUESTION]}
        tokens = http.post("/tokenize", json=body).json()["tokens"]
        text = http.post("/detokenize", json={"model": "braid-demo", "tokens": tokens}).json()["prompt"]
        info = http.get("/tokenizer_info", params={"model": "braid-demo"}).json()
    assert WEATHER_QUESTION["content"] in text
    assert info["eos_token"] in text


def test_parts_of_a_conversation_are_counted(client):
    """A client that cuts a long conversation counts each part, whatever stands at its end."""
    call = {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Oslo"}}
    thought = {"type": "thinking", "thinking": "I look it up.", "signature": ""}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "4 degrees"}
    turns = [
        WEATHER_QUESTION,
        {"role": "assistant", "content": [thought]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": "It is 4 degrees."},
    ]
    counts = [
        client.messages.count_tokens(model="braid-demo", messages=turns[:end], tools=[WEATHER]).input_tokens
        for end in range(1, len(turns) + 1)
    ]
    assert counts[2] > counts[1] > 0
    assert counts[4] > counts[3] > counts[2]
