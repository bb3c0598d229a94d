"""langgraph: an agent with tools, memory of a thread, streams and a typed result.  Argument: the server's address."""

import sys

from cases import run
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

URL = sys.argv[1]
MODEL = ChatOpenAI(model="braid-demo", base_url=f"{URL}/v1", api_key="none", max_retries=0, temperature=0)
WEATHER = {"Oslo": (7, "rain"), "Paris": (21, "sun"), "Rome": (30, "sun"), "Lima": (18, "fog")}


@tool
def get_weather(city: str) -> dict[str, object]:
    """Current weather of a city"""
    temperature, condition = WEATHER[city]
    return {"temperature": temperature, "condition": condition}


def agent(**options: object) -> object:
    """The graph of langgraph's documentation: the model, its tools, and the model again."""
    model = MODEL.bind_tools([get_weather])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([get_weather]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(**options)


def question(city: str) -> dict[str, object]:
    return {"messages": [HumanMessage(f"What is the weather in {city}?")]}


def loop() -> None:
    messages = agent().invoke(question("Oslo"))["messages"]
    assert [type(message) for message in messages] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert messages[1].tool_calls[0]["args"] == {"city": "Oslo"}
    assert "7" in messages[-1].content


def thread() -> None:
    """Four questions in one thread, which sends all earlier messages again."""
    remembering = agent(checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "weather"}}
    for number, (city, (temperature, _)) in enumerate(WEATHER.items(), 1):
        messages = remembering.invoke(question(city), thread)["messages"]
        assert len(messages) == 4 * number
        assert str(temperature) in messages[-1].content, messages[-1].content


def streamed() -> None:
    pieces = list(agent().stream(question("Paris"), stream_mode="messages"))
    text = "".join(piece.content for piece, _ in pieces if isinstance(piece, AIMessage) and piece.content)
    assert "21" in text
    assert any(isinstance(piece, ToolMessage) for piece, _ in pieces)


run([loop, thread, streamed])
