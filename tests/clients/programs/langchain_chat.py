"""langchain-openai's ChatOpenAI over both APIs.  Arguments: the server's address."""

import sys

from cases import run
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel, Field

URL = sys.argv[1]
COMMON = {"model": "braid-demo", "base_url": f"{URL}/v1", "api_key": "none", "max_retries": 0}
CAPITAL = "What is the capital of France?"


class GetWeather(BaseModel):
    """Current weather of a city"""

    city: str


class Person(BaseModel):
    """A person"""

    name: str = Field(max_length=12)
    age: int


def chat() -> None:
    reply = ChatOpenAI(**COMMON, temperature=0).invoke(CAPITAL)
    assert "Paris" in reply.content
    assert reply.usage_metadata["output_tokens"] > 0


def stream() -> None:
    pieces = list(ChatOpenAI(**COMMON, temperature=0).stream(CAPITAL))
    assert "Paris" in "".join(piece.content for piece in pieces)


def batch() -> None:
    replies = ChatOpenAI(**COMMON, temperature=0).batch([CAPITAL, "What is the capital of Italy?"])
    assert ["Paris" in replies[0].content, "Rome" in replies[1].content] == [True, True]


def tools() -> None:
    model = ChatOpenAI(**COMMON, temperature=0).bind_tools([GetWeather])
    question = HumanMessage("What is the weather in Oslo?")
    reply = model.invoke([question])
    (call,) = reply.tool_calls
    assert (call["name"], call["args"]) == ("GetWeather", {"city": "Oslo"})
    answer = ToolMessage('{"temperature": 7, "condition": "rain"}', tool_call_id=call["id"])
    assert isinstance(model.invoke([question, reply, answer]), AIMessage)


def structured() -> None:
    model = ChatOpenAI(**COMMON, temperature=0, max_tokens=80)
    for method in ("json_schema", "function_calling"):
        person = model.with_structured_output(Person, method=method).invoke("Ada is 36 years old.")
        assert isinstance(person, Person), method


def responses() -> None:
    model = ChatOpenAI(**COMMON, use_responses_api=True)
    reply = model.invoke(CAPITAL)
    assert "Paris" in reply.text
    pieces = list(model.stream(CAPITAL))
    assert "Paris" in "".join(piece.text for piece in pieces)


def completion() -> None:
    assert isinstance(OpenAI(**COMMON, max_tokens=4).invoke("Once upon a time"), str)


run([chat, stream, batch, tools, structured, responses, completion])
