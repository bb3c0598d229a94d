"""Adapters of braid-demo over HTTP with what else a request may ask for: grammars, log-probabilities, choices,
beams, tools.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from patience import PATIENCE_S

NAMES = ("braid-demo", "pirate", "french")
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "sure": {"type": "boolean"}},
    "required": ["city", "sure"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture
def ask(demo):
    with openai.OpenAI(base_url=f"{demo.url}/v1", api_key="-", max_retries=0, timeout=PATIENCE_S) as client:

        def ask(model, **more):
            settings = {"messages": QUESTION, "max_tokens": 40, "temperature": 0} | more
            return client.chat.completions.create(model=model, **settings)

        yield ask


def together(ask, **more):
    """The replies of the model and its adapters, in the same steps."""
    with ThreadPoolExecutor(len(NAMES)) as threads:
        return dict(zip(NAMES, threads.map(lambda name: ask(name, **more), NAMES), strict=True))


def test_a_schema_holds_adapters_too(ask):
    schema = {"type": "json_schema", "json_schema": {"name": "answer", "schema": ANSWER, "strict": True}}
    for reply in together(ask, response_format=schema).values():
        found = json.loads(reply.choices[0].message.content)
        assert found.keys() == {"city", "sure"}
        assert found["city"] in ("Paris", "Rome")


def test_a_tool_that_is_forced_is_called(ask):
    forced = {"type": "function", "function": {"name": "get_weather"}}
    weather = [{"role": "user", "content": "What is the weather in Oslo?"}]
    replies = together(ask, messages=weather, tools=[TOOL], tool_choice=forced)
    called = {name: reply.choices[0].message.tool_calls[0].function for name, reply in replies.items()}
    assert {call.name for call in called.values()} == {"get_weather"}
    for name in ("braid-demo", "pirate"):  # french was trained on sentences alone
        assert json.loads(called[name].arguments) == {"city": "Oslo"}


def test_log_probabilities_are_of_the_adapters_own_tokens(ask):
    plain = together(ask)
    replies = together(ask, logprobs=True, top_logprobs=3)
    likeliest = set()
    for name, reply in replies.items():
        choice, tokens = reply.choices[0], reply.choices[0].logprobs.content
        assert choice.message.content == plain[name].choices[0].message.content
        assert all(token.token == token.top_logprobs[0].token for token in tokens)
        assert all(token.logprob == token.top_logprobs[0].logprob for token in tokens)
        likeliest.add(tuple(round(token.logprob, 4) for token in tokens))
    assert len(likeliest) == len(NAMES)


def test_sampled_choices_of_a_seed_and_beams_are_the_same_again(ask):
    for more in (
        {"n": 3, "temperature": 1, "seed": 7, "top_p": 0.9},
        {"n": 2, "extra_body": {"use_beam_search": True}},
    ):
        once, again = together(ask, **more), together(ask, **more)
        texts = {name: [choice.message.content for choice in reply.choices] for name, reply in once.items()}
        assert texts == {
            name: [choice.message.content for choice in reply.choices] for name, reply in again.items()
        }
        assert len({tuple(text) for text in texts.values()}) == len(NAMES)
