"""llama-index's Ollama: chats, streams, tools, structured output, vectors.  Argument: the address."""

import sys

from cases import run
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.ollama import OllamaEmbedding
from llama_index.llms.ollama import Ollama
from pydantic import BaseModel, Field

URL = sys.argv[1]
LLM = Ollama(model="braid-demo", base_url=URL, temperature=0, request_timeout=60)
CAPITAL = [ChatMessage(role="user", content="What is the capital of France?")]


class Person(BaseModel):
    """A person"""

    name: str = Field(max_length=12)
    age: int


def get_weather(city: str) -> str:
    """Current weather of a city"""
    return "22 degrees and sunny"


def knows_the_context() -> None:
    assert LLM.metadata.context_window == 2048


def chat() -> None:
    reply = LLM.chat(CAPITAL)
    assert "Paris" in reply.message.content
    turns = [*CAPITAL, reply.message, ChatMessage(role="user", content="What is the capital of Italy?")]
    assert "Rome" in LLM.chat(turns).message.content
    assert "Paris" in LLM.complete("What is the capital of France?").text


def stream() -> None:
    assert "Paris" in "".join(part.delta for part in LLM.stream_chat(CAPITAL))
    assert "Paris" in "".join(part.delta for part in LLM.stream_complete("What is the capital of France?"))


def tools() -> None:
    weather = FunctionTool.from_defaults(fn=get_weather)
    reply = LLM.chat_with_tools([weather], "What is the weather in Oslo?")
    (call,) = LLM.get_tool_calls_from_response(reply)
    assert (call.tool_name, call.tool_kwargs) == ("get_weather", {"city": "Oslo"})


def structured() -> None:
    found = LLM.as_structured_llm(Person).chat([ChatMessage(role="user", content="Tom is 8 years old.")])
    assert Person.model_validate_json(found.message.content)


def embeds() -> None:
    embedding = OllamaEmbedding(model_name="braid-embed", base_url=URL)
    assert len(embedding.get_text_embedding("How far away is the moon?")) == 128
    assert len(embedding.get_text_embedding_batch(["moon", "dough"])) == 2


run([knows_the_context, chat, stream, tools, structured, embeds])
