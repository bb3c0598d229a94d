"""litellm's tool loop over four questions, its own messages sent back in each.  Argument: the server's address."""

import itertools
import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices

import litellm
from cases import named, run

URL = sys.argv[1]
PROVIDERS = ("openai", "hosted_vllm")
HISTORIES = {"objects": lambda message: message, "dicts": lambda message: message.model_dump()}
WEATHER = {"Oslo": (7, "rain"), "Paris": (21, "sun"), "Rome": (30, "sun"), "Lima": (18, "fog")}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def four_questions(provider: str, history: str) -> None:
    """Each question is a turn with a call and a turn with an answer; all earlier turns are sent again."""
    messages: list[object] = []
    for city, (temperature, condition) in WEATHER.items():
        messages.append({"role": "user", "content": f"What is the weather in {city}?"})
        call = turn(provider, history, messages, "required").tool_calls[0]
        assert call.function.name == "get_weather"
        assert json.loads(call.function.arguments) == {"city": city}
        result = json.dumps({"temperature": temperature, "condition": condition})
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        answer = turn(provider, history, messages, "auto")
        assert not answer.tool_calls
        assert str(temperature) in answer.content, answer.content


def turn(provider: str, history: str, messages: list[object], tool_choice: str) -> litellm.Message:
    """The model's next message, which is also appended as litellm's users do it."""
    reply = litellm.completion(
        model=f"{provider}/braid-demo",
        api_base=f"{URL}/v1",
        api_key="none",
        messages=messages,
        tools=[TOOL],
        tool_choice=tool_choice,
        temperature=0,
        num_retries=0,
    )
    message = reply.choices[0].message
    messages.append(HISTORIES[history](message))
    return message


def streamed(provider: str) -> None:
    """A call out of a stream, sent back as litellm's builder makes it."""
    messages: list[object] = [{"role": "user", "content": "What is the weather in Oslo?"}]
    common = {"model": f"{provider}/braid-demo", "api_base": f"{URL}/v1", "api_key": "none", "tools": [TOOL]}
    for expected in ("tool_calls", "stop"):
        chunks = list(litellm.completion(messages=messages, stream=True, temperature=0, **common))
        choice = litellm.stream_chunk_builder(chunks, messages=messages).choices[0]
        assert choice.finish_reason == expected
        messages.append(choice.message)
        for call in choice.message.tool_calls or ():
            weather = '{"temperature": 7, "condition": "rain"}'
            messages.append({"role": "tool", "tool_call_id": call.id, "content": weather})
    assert "7" in messages[-1].content


run(
    [
        *(
            named(f"four_questions {provider} {history}", four_questions, provider, history)
            for provider, history in itertools.product(PROVIDERS, HISTORIES)
        ),
        *(named(f"streamed {provider}", streamed, provider) for provider in PROVIDERS),
    ]
)
