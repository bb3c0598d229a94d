"""pydantic-ai: agents with tools, typed output, history and streams, over both APIs.  Argument: the address."""

import sys

from cases import named, run
from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

URL = sys.argv[1]
PROVIDER = OpenAIProvider(base_url=f"{URL}/v1", api_key="none")
MODELS = [
    OpenAIChatModel("braid-demo", provider=PROVIDER),
    OpenAIResponsesModel("braid-demo", provider=PROVIDER),
]
SETTINGS = ModelSettings(temperature=0, max_tokens=128)
WEATHER = {"Oslo": (7, "rain"), "Paris": (21, "sun"), "Rome": (30, "sun"), "Lima": (18, "fog")}
asked_for: list[str] = []


def get_weather(city: str) -> dict[str, object]:
    """Current weather of a city"""
    asked_for.append(city)
    temperature, condition = WEATHER[city]
    return {"temperature": temperature, "condition": condition}


class Person(BaseModel):
    """A person"""

    name: str = Field(max_length=12)
    age: int


async def four_questions(model: object) -> None:
    """Each with all messages so far."""
    agent = Agent(model, tools=[get_weather], model_settings=SETTINGS)
    history = None
    for city, (temperature, _) in WEATHER.items():
        result = await agent.run(f"What is the weather in {city}?", message_history=history)
        assert asked_for[-1] == city
        assert str(temperature) in result.output, result.output
        history = result.all_messages()
    assert len(history) == 16


async def streamed(model: object) -> None:
    agent = Agent(model, model_settings=SETTINGS)
    async with agent.run_stream("What is the capital of France?") as result:
        pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
    assert len(pieces) > 1
    assert "Paris" in "".join(pieces)


async def typed(model: object) -> None:
    """By a tool that must be called, and by a JSON Schema."""
    for kind in (ToolOutput, NativeOutput):
        agent = Agent(model, output_type=kind(Person), model_settings=SETTINGS, retries=0)
        result = await agent.run("Ada is 36 years old.")
        assert isinstance(result.output, Person), kind


run(
    [
        named(f"{case.__name__} {type(model).__name__}", case, model)
        for case in (four_questions, streamed, typed)
        for model in MODELS
    ]
)
