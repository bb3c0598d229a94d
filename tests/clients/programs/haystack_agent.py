"""haystack: generators, an agent with tools, embedders and a ranker of documents.  Argument: the server's address."""

import os
import sys

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

from cases import run
from haystack import Document, Pipeline
from haystack.components.agents import Agent
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.tools import tool
from haystack.utils import Secret
from pydantic import BaseModel, Field

URL = sys.argv[1]
COMMON = {"api_key": Secret.from_token("none"), "api_base_url": f"{URL}/v1"}
SAMPLING = {"temperature": 0, "max_tokens": 128}
WEATHER = {"Oslo": (7, "rain"), "Paris": (21, "sun")}
asked_for: list[str] = []


@tool
def get_weather(city: str) -> str:
    """Current weather of a city"""
    asked_for.append(city)
    temperature, condition = WEATHER[city]
    return f'{{"temperature": {temperature}, "condition": "{condition}"}}'


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int


def generator(**options: object) -> OpenAIChatGenerator:
    return OpenAIChatGenerator(
        model="braid-demo", generation_kwargs=SAMPLING | options, max_retries=0, **COMMON
    )


def chat() -> None:
    (reply,) = generator().run([ChatMessage.from_user("What is the capital of France?")])["replies"]
    assert "Paris" in reply.text
    assert reply.meta["usage"]["completion_tokens"] > 0


def stream() -> None:
    pieces: list[str] = []
    asked = [ChatMessage.from_user("What is the capital of France?")]
    (reply,) = generator().run(asked, streaming_callback=lambda piece: pieces.append(piece.content))[
        "replies"
    ]
    assert "".join(pieces) == reply.text
    assert "Paris" in reply.text


def agent() -> None:
    """Two questions, the second with the messages of the first."""
    weather = Agent(chat_generator=generator(), tools=[get_weather])
    messages: list[ChatMessage] = []
    for number, (city, (temperature, _)) in enumerate(WEATHER.items(), 1):
        asked = ChatMessage.from_user(f"What is the weather in {city}?")
        messages = weather.run(messages=[*messages, asked])["messages"]
        assert asked_for[-1] == city
        assert str(temperature) in messages[-1].text, messages[-1].text
        assert len(messages) == 4 * number


def structured() -> None:
    asked = [ChatMessage.from_user("Ada is 36 years old.")]
    (reply,) = generator(response_format=Person).run(asked)["replies"]
    assert isinstance(Person.model_validate_json(reply.text), Person)


def retrieval() -> None:
    passages = ["Bread is made of flour, water, salt and yeast.", "The capital of France is Paris."]
    store = InMemoryDocumentStore()
    documents = [Document(content=text) for text in passages]
    embedder = OpenAIDocumentEmbedder(model="braid-embed", progress_bar=False, **COMMON)
    store.write_documents(embedder.run(documents)["documents"])
    pipeline = Pipeline()
    pipeline.add_component("embedder", OpenAITextEmbedder(model="braid-embed", **COMMON))
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=1))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    retrieved = pipeline.run({"embedder": {"text": "What is the capital of France?"}})["retriever"][
        "documents"
    ]
    assert [document.content for document in retrieved] == [passages[1]]


run([chat, stream, agent, structured, retrieval])
