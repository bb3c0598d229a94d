"""llama-index: chat, streams, an agent with tools, structured output, a query engine.  Argument: the address."""

import sys

from cases import run
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel, Field

URL = sys.argv[1]
LLM = OpenAILike(
    model="braid-demo",
    api_base=f"{URL}/v1",
    api_key="none",
    is_chat_model=True,
    is_function_calling_model=True,
    context_window=2048,
    max_tokens=128,
    temperature=0,
    max_retries=0,
)
EMBEDDING = OpenAILikeEmbedding(model_name="braid-embed", api_base=f"{URL}/v1", api_key="none")
CAPITAL = [ChatMessage(role="user", content="What is the capital of France?")]
WEATHER = {"Oslo": (7, "rain"), "Paris": (21, "sun")}
asked_for: list[str] = []


def get_weather(city: str) -> str:
    """Current weather of a city"""
    asked_for.append(city)
    temperature, condition = WEATHER[city]
    return f'{{"temperature": {temperature}, "condition": "{condition}"}}'


class Person(BaseModel):
    """A person"""

    name: str = Field(max_length=12)
    age: int


def chat_and_complete() -> None:
    assert "Paris" in LLM.chat(CAPITAL).message.content
    assert LLM.complete("What is the capital of France?").text


def stream() -> None:
    assert "Paris" in "".join(piece.delta or "" for piece in LLM.stream_chat(CAPITAL))


def tool_is_called() -> None:
    tool = FunctionTool.from_defaults(get_weather, description="Current weather of a city")
    reply = LLM.chat_with_tools([tool], user_msg="What is the weather in Oslo?", tool_required=True)
    (call,) = LLM.get_tool_calls_from_response(reply)
    assert (call.tool_name, call.tool_kwargs) == ("get_weather", {"city": "Oslo"})


async def agent() -> None:
    """Two questions with one context, which sends all messages so far."""
    tool = FunctionTool.from_defaults(get_weather, description="Current weather of a city")
    workflow = AgentWorkflow([FunctionAgent(name="weather", tools=[tool], llm=LLM, streaming=True)])
    context = Context(workflow)
    for city, (temperature, _) in WEATHER.items():
        result = await workflow.run(user_msg=f"What is the weather in {city}?", ctx=context)
        assert asked_for[-1] == city
        assert str(temperature) in str(result), str(result)


def structured() -> None:
    person = LLM.as_structured_llm(Person).chat([ChatMessage(role="user", content="Ada is 36 years old.")])
    assert isinstance(person.raw, Person)


def retrieval() -> None:
    passages = ["Bread is made of flour, water, salt and yeast.", "The capital of France is Paris."]
    index = VectorStoreIndex.from_documents([Document(text=text) for text in passages], embed_model=EMBEDDING)
    (found,) = index.as_retriever(similarity_top_k=1).retrieve("What is the capital of France?")
    assert found.text == passages[1]
    assert str(index.as_query_engine(llm=LLM, similarity_top_k=1).query("What is the capital of France?"))


run([chat_and_complete, stream, tool_is_called, agent, structured, retrieval])
