"""openai-agents: an agent that calls a tool and answers, over both APIs.  Argument: the server's address."""

import sys

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from cases import named, run
from openai import AsyncOpenAI
from pydantic import BaseModel, Field

URL = sys.argv[1]
CLIENT = AsyncOpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)
set_tracing_disabled(True)
MODELS = [
    OpenAIChatCompletionsModel(model="braid-demo", openai_client=CLIENT),
    OpenAIResponsesModel(model="braid-demo", openai_client=CLIENT),
]
asked_for: list[str] = []


@function_tool
def get_weather(city: str) -> str:
    """Current weather of a city"""
    asked_for.append(city)
    return '{"temperature": 7, "condition": "rain"}'


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int


async def calls_the_tool(model: object) -> None:
    asked_for.clear()
    agent = Agent(name="Weather", model=model, tools=[get_weather])
    result = await Runner.run(agent, "What is the weather in Oslo?", max_turns=4)
    assert asked_for == ["Oslo"]
    assert "7" in result.final_output


async def streams(model: object) -> None:
    agent = Agent(name="Facts", model=model)
    result = Runner.run_streamed(agent, "What is the capital of France?")
    kinds = [event.type async for event in result.stream_events()]
    assert "raw_response_event" in kinds
    assert "Paris" in result.final_output


async def gives_a_type(model: object) -> None:
    agent = Agent(name="Reader", model=model, output_type=Person, model_settings=ModelSettings(max_tokens=80))
    result = await Runner.run(agent, "Ada is 36 years old.")
    assert isinstance(result.final_output, Person)


async def goes_on(model: object) -> None:
    """Two more questions, each with all that was said before."""
    agent = Agent(name="Weather", model=model, tools=[get_weather])
    history: list[object] = []
    for city in ("Oslo", "Paris"):
        asked = {"role": "user", "content": f"What is the weather in {city}?"}
        result = await Runner.run(agent, [*history, asked], max_turns=4)
        assert asked_for[-1] == city
        assert "7" in result.final_output
        history = result.to_input_list()
    assert len(history) == 8


run(
    [
        named(f"{case.__name__} {type(model).__name__}", case, model)
        for case in (calls_the_tool, streams, gives_a_type, goes_on)
        for model in MODELS
    ]
)
