"""NeMo Gym's VLLMModel in its own web server: rollouts with the ids and log-probabilities that training needs.

Argument: the server's address.
"""

import sys

from cases import named, run
from fastapi.testclient import TestClient
from gym_models import model_server, rollout, trained_on

URL = sys.argv[1]
TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
WEATHER = {"Oslo": (7, "rain"), "Paris": (21, "sun")}


def one_turn(client: TestClient) -> None:
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    item = trained_on(rollout(client, asked))
    assert "Paris" in item["content"][0]["text"]


def tool_loop(client: TestClient) -> None:
    """Two questions; every turn is sent again, and begins with the ids of the turns before it."""
    messages: list[object] = []
    for city, (temperature, condition) in WEATHER.items():
        messages.append({"role": "user", "content": f"What is the weather in {city}?"})
        call = trained_on(rollout(client, messages, tools=[TOOL]))
        assert (call["name"], call["arguments"]) == ("get_weather", f'{{"city": "{city}"}}')
        output = f'{{"temperature": {temperature}, "condition": "{condition}"}}'
        messages += [call, {"type": "function_call_output", "call_id": call["call_id"], "output": output}]
        answer = trained_on(rollout(client, messages, tools=[TOOL]))
        assert str(temperature) in answer["content"][0]["text"]
        messages.append(answer)


def cut(client: TestClient) -> None:
    asked = [{"role": "user", "content": "Tell me a story"}]
    response = rollout(client, asked, max_output_tokens=4)
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["usage"]["output_tokens"] == 4
    trained_on(response)


def too_long(client: TestClient) -> None:
    """An empty completion, as for vLLM: the text of the error has the words that Gym looks for."""
    response = rollout(client, [{"role": "user", "content": "word " * 5000}])
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}


def of_its_template(client: TestClient) -> None:
    """What a template may know of is part of the ids too."""
    asked = [{"role": "user", "content": "Is 7 a prime number?"}]
    options = {"metadata": {"chat_template_kwargs": '{"enable_thinking": true}'}}
    plain, thinking = (trained_on(rollout(client, asked, **each)) for each in ({}, options))
    assert plain["prompt_token_ids"] != thinking["prompt_token_ids"]


with model_server(URL, "braid-demo") as client:
    run(
        [named(case.__name__, case, client) for case in (one_turn, tool_loop, cut, too_long, of_its_template)]
    )
