"""Anthropic's tool runner, a loop of calls and results, over its beta API.  Argument: the server's address."""

import json
import sys

from anthropic import Anthropic, beta_tool
from cases import run

URL = sys.argv[1]
client = Anthropic(base_url=URL, api_key="none", max_retries=0)
asked_for: list[str] = []
COMMON = {"model": "braid-demo", "max_tokens": 128}


@beta_tool
def get_weather(city: str) -> str:
    """Current weather of a city

    Args:
        city: The city
    """
    asked_for.append(city)
    return json.dumps({"temperature": 7, "condition": "rain"})


def asked(city: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"What is the weather in {city}?"}]


def loop() -> None:
    asked_for.clear()
    runner = client.beta.messages.tool_runner(tools=[get_weather], messages=asked("Oslo"), **COMMON)
    messages = list(runner)
    assert [message.stop_reason for message in messages] == ["tool_use", "end_turn"]
    assert asked_for == ["Oslo"]
    assert "7" in messages[-1].content[0].text


def until_done() -> None:
    asked_for.clear()
    runner = client.beta.messages.tool_runner(tools=[get_weather], messages=asked("Paris"), **COMMON)
    last = runner.until_done()
    assert asked_for == ["Paris"]
    assert "7" in last.content[0].text


def streamed() -> None:
    asked_for.clear()
    runner = client.beta.messages.tool_runner(
        tools=[get_weather], messages=asked("Rome"), stream=True, **COMMON
    )
    texts = ["".join(event.text for event in stream if event.type == "text") for stream in runner]
    assert asked_for == ["Rome"]
    assert len(texts) == 2
    assert "7" in texts[-1]


def four_turns() -> None:
    """The history of one loop is sent with the next question."""
    messages: list[object] = []
    for city in ("Oslo", "Lima"):
        messages += asked(city)
        runner = client.beta.messages.tool_runner(tools=[get_weather], messages=list(messages), **COMMON)
        for message in runner:
            messages.append({"role": "assistant", "content": message.content})
            if results := runner.generate_tool_call_response():
                messages.append(results)
        assert "7" in messages[-1]["content"][0].text
    assert len(messages) == 8


def any_tool_and_counting() -> None:
    common = {"model": "braid-demo", "messages": asked("Oslo"), "tools": [get_weather.to_dict()]}
    reply = client.messages.create(max_tokens=64, tool_choice={"type": "any"}, **common)
    assert (reply.content[-1].name, reply.content[-1].input) == ("get_weather", {"city": "Oslo"})
    counted = client.messages.count_tokens(**common).input_tokens
    assert counted == reply.usage.input_tokens + reply.usage.cache_read_input_tokens


run([loop, until_done, streamed, four_turns, any_tool_and_counting])
