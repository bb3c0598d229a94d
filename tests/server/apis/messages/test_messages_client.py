"""The official `anthropic` client against the application."""

from __future__ import annotations

import asyncio

import httpx2
import pydantic
import pytest
from later import Later
from messages_bodies import SCRIPTS, WEATHER, body
from raw_server import RawServer
from scripted import ScriptedPipeline

anthropic = Later("anthropic")


class Asked:
    """A client of an application around a script."""

    def __init__(self, rig):
        self.rig = rig

    def run(self, scenario, api_key="none"):
        async def whole():
            transport = httpx2.ASGITransport(app=self.rig.app, raise_app_exceptions=False)
            http = httpx2.AsyncClient(transport=transport)
            async with anthropic.AsyncAnthropic(
                base_url="http://test", api_key=api_key, max_retries=0, http_client=http
            ) as client:
                return await scenario(client)

        return asyncio.run(whole())


@pytest.fixture
def scripted_client(make_rig):
    def make(batches, **settings):
        pipeline = ScriptedPipeline()
        pipeline.batches = batches
        return Asked(make_rig(pipeline, **settings))

    return make


def create(**fields):
    return lambda client: client.messages.create(**body(**fields))


def final(**fields):
    async def read(client):
        async with client.messages.stream(**body(**fields)) as stream:
            return await stream.get_final_message()

    return read


def comparable(message):
    """What a message says, without its id and without what is not set."""
    return message.model_dump(exclude={"id"}, exclude_none=True)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_stream_gathers_to_the_whole_reply(scripted_client, name):
    client = scripted_client(SCRIPTS[name])
    whole, streamed = client.run(create()), client.run(final())
    assert comparable(streamed) == comparable(whole)


def test_the_text_of_a_stream(scripted_client):
    async def read(client):
        async with client.messages.stream(**body()) as stream:
            return [text async for text in stream.text_stream]

    assert scripted_client(SCRIPTS["text"]).run(read) == ["Hel", "lo"]


def test_a_search_result_is_shown_to_the_model(scripted_client):
    found = {"type": "search_result", "source": "https://docs.test", "title": "Oslo"}
    found["content"] = [{"type": "text", "text": "4 degrees"}]
    asking = scripted_client(SCRIPTS["text"])
    asking.run(create(messages=[{"role": "user", "content": [found]}]))
    (message,) = asking.rig.pipeline.asked.messages
    assert message["content"] == "Title: Oslo\nSource: https://docs.test\n4 degrees"


def test_the_helpers_events_of_a_call(scripted_client):
    async def read(client):
        async with client.messages.stream(**body(tools=[WEATHER])) as stream:
            return [event async for event in stream]

    events = scripted_client(SCRIPTS["a_call"]).run(read)
    arguments = [event.partial_json for event in events if event.type == "input_json"]
    assert "".join(arguments) == '{"city": "Oslo"}'
    assert events[-1].message.stop_reason == "tool_use"


def test_the_helpers_events_of_thinking(scripted_client):
    async def read(client):
        async with client.messages.stream(**body(thinking={"type": "adaptive"})) as stream:
            return [event async for event in stream]

    events = scripted_client(SCRIPTS["thinking"]).run(read)
    assert [event.thinking for event in events if event.type == "thinking"] == ["Let me ", "see."]
    assert any(event.type == "signature" for event in events)


class Capital(pydantic.BaseModel):
    city: str


def test_a_model_class_is_parsed(scripted_client):
    from messages_bodies import script
    from scripted import said

    client = scripted_client(script(said('{"city": "Oslo"}'), said("", "stop")))
    message = client.run(lambda client: client.messages.parse(**body(), output_format=Capital))
    assert message.parsed_output == Capital(city="Oslo")
    assert client.rig.pipeline.asked.constraint.kind == "json_schema"


def test_a_reply_can_be_sent_back(scripted_client):
    client = scripted_client(SCRIPTS["a_call"])

    async def talk(client):
        first = await client.messages.create(**body(tools=[WEATHER]))
        call = first.content[-1]
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "4 degrees"}
        turns = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": [result]},
        ]
        return await client.messages.create(**body(tools=[WEATHER], messages=turns))

    client.run(talk)
    assert [turn["role"] for turn in client.rig.pipeline.asked.messages] == ["user", "assistant", "tool"]


def test_a_refusal_is_the_clients_own_error(scripted_client):
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        scripted_client([]).run(create(max_tokens=0))


def test_a_wrong_model_is_not_found(scripted_client):
    with pytest.raises(anthropic.NotFoundError):
        scripted_client([]).run(create(model="other"))


def test_an_error_in_a_stream_is_raised(scripted_client):
    from messages_bodies import script
    from scripted import said

    from pipelines.base.errors import EngineError

    with pytest.raises(anthropic.APIStatusError, match="the step failed"):
        scripted_client([*script(said("a")), EngineError("the step failed")]).run(final())


def test_the_clients_key_header_is_a_key(scripted_client):
    client = scripted_client(SCRIPTS["text"], api_keys=("secret",))
    assert client.run(create(), api_key="secret").role == "assistant"
    with pytest.raises(anthropic.AuthenticationError) as caught:
        client.run(create(), api_key="wrong")
    assert caught.value.body["error"]["type"] == "authentication_error"


def test_a_wrong_key_is_refused_over_a_socket(make_rig):
    with (
        RawServer(make_rig(api_keys=("secret",)).app) as server,
        anthropic.Anthropic(
            base_url=f"http://127.0.0.1:{server.port}", api_key="wrong", max_retries=0
        ) as stranger,
        pytest.raises(anthropic.AuthenticationError),
    ):
        stranger.messages.create(**body())
