"""mistralai: chat, streams, tools, structured replies, embeddings and the list of models.  Argument: the address."""

import json
import sys

from cases import run
from mistralai.client import Mistral
from pydantic import BaseModel, Field

URL = sys.argv[1]
client = Mistral(api_key="none", server_url=URL)
CAPITAL = [{"role": "user", "content": "What is the capital of France?"}]
TOOL = {
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


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int


def chat() -> None:
    reply = client.chat.complete(
        model="braid-demo", messages=CAPITAL, temperature=0, random_seed=7, safe_prompt=True
    )
    assert "Paris" in reply.choices[0].message.content
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def continued() -> None:
    """The reply goes on with a last message that is marked as its beginning."""
    begun = [*CAPITAL, {"role": "assistant", "content": "The capital of France is", "prefix": True}]
    reply = client.chat.complete(model="braid-demo", messages=begun, temperature=0)
    content = reply.choices[0].message.content
    assert content.strip().startswith("Paris"), content


def seeded() -> None:
    """`random_seed` is a seed: the same text again."""
    ask = {
        "model": "braid-demo",
        "messages": [{"role": "user", "content": "Tell me a story"}],
        "max_tokens": 24,
    }
    texts = [
        client.chat.complete(temperature=1.4, random_seed=seed, **ask).choices[0].message.content
        for seed in (7, 7, 8, 9)
    ]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 1


def stream() -> None:
    with client.chat.stream(model="braid-demo", messages=CAPITAL, temperature=0) as events:
        pieces = [event.data.choices[0].delta.content for event in events if event.data.choices]
    assert "Paris" in "".join(piece for piece in pieces if piece)


def tools() -> None:
    messages: list[object] = [{"role": "user", "content": "What is the weather in Oslo?"}]
    common = {"model": "braid-demo", "tools": [TOOL], "temperature": 0}
    message = client.chat.complete(messages=messages, tool_choice="any", **common).choices[0].message
    (call,) = message.tool_calls
    arguments = call.function.arguments
    assert (json.loads(arguments) if isinstance(arguments, str) else arguments) == {"city": "Oslo"}
    weather = '{"temperature": 7, "condition": "rain"}'
    messages += [
        message,
        {"role": "tool", "name": "get_weather", "content": weather, "tool_call_id": call.id},
    ]
    reply = client.chat.complete(messages=messages, tool_choice="auto", **common)
    assert "7" in reply.choices[0].message.content


def parsed() -> None:
    reply = client.chat.parse(
        response_format=Person,
        model="braid-demo",
        messages=[{"role": "user", "content": "Ada is 36 years old."}],
        max_tokens=80,
        temperature=0,
    )
    assert isinstance(reply.choices[0].message.parsed, Person)


def embeddings() -> None:
    reply = client.embeddings.create(model="braid-embed", inputs=["one", "two"])
    assert [len(each.embedding) for each in reply.data] == [128, 128]


def models() -> None:
    found = {each.id: each for each in client.models.list().data}
    assert found["braid-demo"].capabilities.completion_chat
    assert not found["braid-embed"].capabilities.completion_chat
    assert found["french"].type == found["braid-demo"].type == "base"


run([chat, continued, seeded, stream, tools, parsed, embeddings, models])
