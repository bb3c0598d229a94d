"""The Responses API as the official client uses it: two workers, the shipped model, and one of a chosen pace."""

from __future__ import annotations

import json
import time

import openai
import pytest
from patience import PATIENCE_S
from pydantic import BaseModel

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
OSLO = "What is the weather in Oslo?"
LONG = 4000
"""Tokens that take 20 seconds at 5 ms each."""
ENDED = ("completed", "incomplete", "failed", "cancelled")


@pytest.fixture(scope="module")
def demo(demo):
    with openai.OpenAI(base_url=f"{demo.url}/v1", api_key="none", max_retries=0) as client:
        yield client.responses


@pytest.fixture(scope="module")
def slow(server):
    """Responses of a model that takes 5 ms for each token."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client.responses


def ended(responses, response_id):
    deadline_s = time.monotonic() + PATIENCE_S
    while (found := responses.retrieve(response_id)).status not in ENDED:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    return found


def long_one(responses, **more):
    return responses.create(
        model="fake",
        input="long",
        max_output_tokens=LONG,
        background=True,
        extra_body={"ignore_eos": True},
        **more,
    )


def test_a_question_gets_a_reply(demo):
    reply = demo.create(model="braid-demo", input="What is the capital of France?")
    assert "Paris" in reply.output_text
    assert reply.status == "completed"


def test_the_streaming_helper_ends_with_the_response(demo):
    with demo.stream(model="braid-demo", input="What is the capital of France?") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == final.output_text
    assert "Paris" in final.output_text


def test_a_tool_is_called_and_the_reply_uses_its_result(demo):
    first = demo.create(model="braid-demo", input=OSLO, tools=[WEATHER])
    (call,) = first.output
    assert (call.type, call.name, json.loads(call.arguments)) == (
        "function_call",
        "get_weather",
        {"city": "Oslo"},
    )
    result = {
        "type": "function_call_output",
        "call_id": call.call_id,
        "output": '{"temperature": 21, "condition": "sunny"}',
    }
    continued = demo.create(
        model="braid-demo", input=[result], tools=[WEATHER], previous_response_id=first.id
    )
    history = [{"role": "user", "content": OSLO}, call.to_dict(), result]
    sent = demo.create(model="braid-demo", input=history, tools=[WEATHER])
    assert "21" in continued.output_text
    assert continued.output_text == sent.output_text


def test_streamed_arguments_are_those_of_the_call(demo):
    with demo.stream(model="braid-demo", input=OSLO, tools=[WEATHER]) as stream:
        deltas = [event.delta for event in stream if event.type == "response.function_call_arguments.delta"]
        (call,) = stream.get_final_response().output
    assert "".join(deltas) == call.arguments
    assert json.loads(call.arguments) == {"city": "Oslo"}


def test_thinking_is_an_item_of_its_own(demo):
    extra = {"chat_template_kwargs": {"enable_thinking": True}}
    with demo.stream(model="braid-demo", input="What is 8 + 7?", extra_body=extra) as stream:
        thought = "".join(event.delta for event in stream if event.type == "response.reasoning_text.delta")
        final = stream.get_final_response()
    reasoning, message = final.output
    assert reasoning.content[0].text == thought
    assert "15" in message.content[0].text
    assert final.usage.output_tokens_details.reasoning_tokens > 0


class Person(BaseModel):
    name: str
    age: int


def test_text_is_parsed_into_a_model(demo):
    question = "Extract name and age as JSON: Anna is 31 years old."
    reply = demo.parse(model="braid-demo", input=question, text_format=Person)
    with demo.stream(model="braid-demo", input=question, text_format=Person) as stream:
        streamed = stream.get_final_response()
    assert reply.output_parsed == streamed.output_parsed == Person(name="Anna", age=31)


def test_a_named_tool_is_always_called(demo):
    choice = {"type": "function", "name": "get_weather"}
    reply = demo.create(model="braid-demo", input="Hello!", tools=[WEATHER], tool_choice=choice)
    (call,) = reply.output
    assert call.name == "get_weather"
    assert isinstance(json.loads(call.arguments)["city"], str)


def test_every_worker_serves_every_response(slow):
    made = slow.create(model="fake", input="hi", max_output_tokens=4)
    assert {slow.retrieve(made.id).output_text for _ in range(8)} == {made.output_text}
    items = slow.input_items.list(made.id)
    assert items.data[0].content[0].text == "hi"
    slow.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        slow.retrieve(made.id)


def test_a_background_response_is_polled(slow):
    queued = slow.create(model="fake", input="hi", max_output_tokens=20, background=True)
    assert queued.status == "queued"
    done = ended(slow, queued.id)
    assert done.status in ("completed", "incomplete")
    assert done.usage.output_tokens <= 20


def test_a_background_response_is_followed_from_anywhere(slow):
    name = slow.create(
        model="fake", input="hi", max_output_tokens=40, background=True, extra_body={"ignore_eos": True}
    ).id
    whole = list(slow.retrieve(name, stream=True))
    assert [event.sequence_number for event in whole] == list(range(len(whole)))
    rest = list(slow.retrieve(name, stream=True, starting_after=9))
    assert [event.sequence_number for event in rest] == list(range(10, len(whole)))


def test_a_background_response_is_cancelled_by_any_worker(server, slow):
    for _ in range(4):
        before = server.metric("vllm:generation_tokens_total")
        name = long_one(slow).id
        server.wait_for(lambda: server.metric("vllm:num_requests_running") == 1)
        assert slow.cancel(name).status == "cancelled"
        assert server.tokens_at_rest() - before < LONG
        assert slow.retrieve(name).status == "cancelled"


def test_a_worker_that_dies_leaves_failed_responses(server, slow):
    names = [long_one(slow).id for _ in range(6)]
    for worker in server.children()[1]:
        worker.kill()
    server.ready()
    found = [ended(slow, name) for name in names]
    events = list(slow.retrieve(names[0], stream=True))
    assert {(one.status, one.error.code) for one in found} == {("failed", "server_error")}
    assert events[-1].type == "response.failed"
