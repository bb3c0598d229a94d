"""langchain-openai's ChatOpenAI over both APIs.  Arguments: the server's address."""

import sys

from cases import run
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel, Field

URL = sys.argv[1]
COMMON = {"model": "braid-demo", "base_url": f"{URL}/v1", "api_key": "none", "max_retries": 0}
CAPITAL = "What is the capital of France?"


class GetWeather(BaseModel):
    """Current weather of a city"""

    city: str


@tool
def get_weather(city: str) -> str:
    """Current weather of a city"""
    return "22 degrees and sunny"


@tool
def set_timer(minutes: int) -> str:
    """Set a timer"""
    return "Error: timeout"


@tool
def get_stock_price(symbol: str) -> int:
    """Get the price of a stock"""
    return 42


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


def tool_loop() -> None:
    """Three questions, each to one of three tools that say words, an error and a number."""
    by_name = {function.name: function for function in (get_weather, set_timer, get_stock_price)}
    model = ChatOpenAI(**COMMON, temperature=0).bind_tools(list(by_name.values()))
    asked = {
        "What is the weather in Oslo?": ("get_weather", {"city": "Oslo"}, "22 degrees and sunny"),
        "Set a timer for 5 minutes.": ("set_timer", {"minutes": 5}, "timeout"),
        "What is the price of AAPL?": ("get_stock_price", {"symbol": "AAPL"}, "42"),
    }
    for question, (name, arguments, told) in asked.items():
        messages = [HumanMessage(question)]
        messages.append(model.invoke(messages))
        (call,) = messages[-1].tool_calls
        assert (call["name"], call["args"]) == (name, arguments), call
        messages.append(by_name[name].invoke(call))
        answer = model.invoke(messages).content
        assert told in answer, answer


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


run([chat, stream, batch, tools, tool_loop, structured, responses, completion])
