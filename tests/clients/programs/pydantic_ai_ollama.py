"""pydantic-ai's Ollama: an agent with a tool and a history, typed output, streams.  Argument: the address."""

import sys

from cases import run
from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.ollama import OllamaModel
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.settings import ModelSettings

URL = sys.argv[1]
MODEL = OllamaModel("braid-demo:latest", provider=OllamaProvider(base_url=f"{URL}/v1"))
SETTINGS = ModelSettings(temperature=0, max_tokens=128)


class Person(BaseModel):
    """A person"""

    name: str = Field(max_length=12)
    age: int


def get_weather(city: str) -> str:
    """Current weather of a city"""
    return "7 degrees and rain"


async def agent_with_a_tool() -> None:
    agent = Agent(MODEL, tools=[get_weather], model_settings=SETTINGS)
    first = await agent.run("What is the weather in Oslo?")
    assert "7" in first.output, first.output
    later = await agent.run("What is the capital of France?", message_history=first.all_messages())
    assert "Paris" in later.output


async def typed_output() -> None:
    agent = Agent(MODEL, output_type=NativeOutput(Person), model_settings=SETTINGS)
    assert (await agent.run("Tom is 8 years old.")).output.name


async def stream() -> None:
    async with Agent(MODEL, model_settings=SETTINGS).run_stream("What is the capital of France?") as result:
        assert "Paris" in await result.get_output()


run([agent_with_a_tool, typed_output, stream])
