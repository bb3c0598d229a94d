"""PyPI's ollama, as its users call it.  Arguments: the server's address."""

import asyncio
import sys
from collections.abc import Callable

from cases import run
from ollama import AsyncClient, Client, ResponseError
from pydantic import BaseModel, Field

URL = sys.argv[1]
CLIENT = Client(host=URL)
CAPITAL = "What is the capital of France?"
GREEDY = {"temperature": 0}


class Person(BaseModel):
    """A person"""

    name: str = Field(max_length=12)
    age: int


def get_weather(city: str) -> str:
    """
    Current weather of a city

    Args:
      city (str): the city

    Returns:
      str: the weather
    """
    return f"22 degrees and sunny in {city}"


def asked(content: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": content}]


def lists_models() -> None:
    names = [model.model for model in CLIENT.list().models]
    assert {"braid-demo:latest", "braid-embed:latest", "pirate:latest"} <= {*names}, names
    assert all(model.size and model.digest and model.modified_at for model in CLIENT.list().models)


def shows_a_model() -> None:
    shown = CLIENT.show("braid-demo")
    assert {"completion", "tools", "thinking"} <= {*shown.capabilities}
    assert shown.modelinfo["qwen3.context_length"] == 2048
    assert shown.details.family == "qwen3"


def shows_what_is_loaded() -> None:
    CLIENT.generate("braid-demo", keep_alive=-1)
    assert "braid-demo:latest" in [model.model for model in CLIENT.ps().models]


def chats_over_several_turns() -> None:
    turns = asked(CAPITAL)
    reply = CLIENT.chat("braid-demo:latest", turns, options=GREEDY)
    assert "Paris" in reply.message.content
    assert (reply.done_reason, reply.eval_count > 0) == ("stop", True)
    turns += [reply.message, *asked("What is the capital of Italy?")]
    assert "Rome" in CLIENT.chat("braid-demo", turns, options=GREEDY).message.content


def streams_a_chat() -> None:
    parts = list(CLIENT.chat("braid-demo", asked(CAPITAL), stream=True, options=GREEDY))
    assert "Paris" in "".join(part.message.content for part in parts)
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].total_duration > parts[-1].eval_duration > 0


def calls_tools() -> None:
    turns = asked("What is the weather in Oslo?")
    reply = CLIENT.chat("braid-demo", turns, tools=[get_weather], options=GREEDY)
    (call,) = reply.message.tool_calls
    assert (call.function.name, call.function.arguments) == ("get_weather", {"city": "Oslo"})
    result = {"role": "tool", "tool_name": "get_weather", "content": get_weather(**call.function.arguments)}
    last = CLIENT.chat("braid-demo", [*turns, reply.message, result], tools=[get_weather], options=GREEDY)
    assert "22" in last.message.content


def streams_a_call() -> None:
    parts = list(
        CLIENT.chat(
            "braid-demo",
            asked("What is the weather in Oslo?"),
            tools=[get_weather],
            stream=True,
            options=GREEDY,
        )
    )
    calls = [call for part in parts for call in part.message.tool_calls or []]
    assert [dict(call.function.arguments) for call in calls] == [{"city": "Oslo"}]


def follows_a_schema() -> None:
    reply = CLIENT.chat(
        "braid-demo",
        asked("Tom is 8 years old."),
        format=Person.model_json_schema(),
        options={**GREEDY, "num_predict": 64},
    )
    assert Person.model_validate_json(reply.message.content)


def switches_thinking() -> None:
    assert not CLIENT.chat("braid-demo", asked(CAPITAL), think=False, options=GREEDY).message.thinking
    assert CLIENT.chat("braid-demo", asked(CAPITAL), think=True, options=GREEDY).message.content


def generates() -> None:
    reply = CLIENT.generate("braid-demo", CAPITAL, options=GREEDY)
    assert "Paris" in reply.response
    parts = list(CLIENT.generate("braid-demo", CAPITAL, stream=True, options={**GREEDY, "num_predict": 2}))
    assert (parts[-1].done_reason, parts[-1].eval_count) == ("length", 2)


def embeds() -> None:
    reply = CLIENT.embed("braid-embed", ["How far away is the moon?", "Why does dough rise?"])
    assert [len(vector) for vector in reply.embeddings] == [128, 128]
    assert abs(sum(x * x for x in reply.embeddings[0]) - 1) < 1e-5
    assert len(CLIENT.embeddings("braid-embed", "How far away is the moon?").embedding) == 128


def status_of(call: Callable[[], object]) -> int:
    """The status of the error that a call raises; 0 for none."""
    try:
        call()
    except ResponseError as error:
        return error.status_code
    return 0


def names_what_is_wrong() -> None:
    for call, status in (
        (lambda: CLIENT.show("none"), 404),
        (lambda: CLIENT.chat("braid-embed", asked("hi")), 404),
    ):
        assert status_of(call) == status


async def works_asynchronously() -> None:
    client = AsyncClient(host=URL)
    replies = await asyncio.gather(
        *[client.chat("braid-demo", asked(CAPITAL), options=GREEDY) for _ in range(3)]
    )
    assert all("Paris" in reply.message.content for reply in replies)
    stream = await client.chat("braid-demo", asked(CAPITAL), stream=True, options=GREEDY)
    assert "Paris" in "".join([part.message.content async for part in stream])


run(
    [
        lists_models,
        shows_a_model,
        shows_what_is_loaded,
        chats_over_several_turns,
        streams_a_chat,
        calls_tools,
        streams_a_call,
        follows_a_schema,
        switches_thinking,
        generates,
        embeds,
        names_what_is_wrong,
        works_asynchronously,
    ]
)
