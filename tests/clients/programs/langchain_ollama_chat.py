"""langchain-ollama: chats, streams, tools, structured output, vectors.  Arguments: the server's address."""

import sys

from cases import run
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings, OllamaLLM
from pydantic import BaseModel, Field

URL = sys.argv[1]
MODEL = ChatOllama(model="braid-demo", base_url=URL, temperature=0, validate_model_on_init=True)
CAPITAL = "What is the capital of France?"


class Person(BaseModel):
    """A person"""

    name: str = Field(max_length=12)
    age: int


@tool
def get_weather(city: str) -> str:
    """Current weather of a city"""
    return "22 degrees and sunny"


def chat() -> None:
    reply = MODEL.invoke(CAPITAL)
    assert "Paris" in reply.content
    assert reply.usage_metadata["output_tokens"] > 0
    assert reply.response_metadata["done_reason"] == "stop"


def turns() -> None:
    history = [HumanMessage(CAPITAL), MODEL.invoke(CAPITAL), HumanMessage("What is the capital of Italy?")]
    assert "Rome" in MODEL.invoke(history).content


def stream() -> None:
    pieces = list(MODEL.stream(CAPITAL))
    assert "Paris" in "".join(piece.content for piece in pieces)


async def astream() -> None:
    assert "Paris" in "".join([piece.content async for piece in MODEL.astream(CAPITAL)])


def tools() -> None:
    bound = MODEL.bind_tools([get_weather])
    asked = HumanMessage("What is the weather in Oslo?")
    reply = bound.invoke([asked])
    (call,) = reply.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Oslo"})
    result = ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
    assert "22" in bound.invoke([asked, AIMessage("", tool_calls=reply.tool_calls), result]).content


def structured() -> None:
    for method in ("json_schema", "json_mode"):
        found = MODEL.with_structured_output(Person, method=method, include_raw=True)
        raw = found.invoke("Tom is 8 years old.")["raw"].content
        assert raw.startswith("{"), raw
    assert MODEL.with_structured_output(Person).invoke("Tom is 8 years old.").name


def reasoning() -> None:
    reply = ChatOllama(model="braid-demo", base_url=URL, temperature=0, reasoning=True).invoke(CAPITAL)
    assert reply.content


def completes() -> None:
    assert "Paris" in OllamaLLM(model="braid-demo", base_url=URL, temperature=0).invoke(CAPITAL)


def embeds() -> None:
    vectors = OllamaEmbeddings(model="braid-embed", base_url=URL).embed_documents(["moon", "dough"])
    assert [len(vector) for vector in vectors] == [128, 128]


run([chat, turns, stream, astream, tools, structured, reasoning, completes, embeds])
