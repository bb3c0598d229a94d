"""OpenAI's events of conversations at realtime, read with the types of its client; the model is scripted."""

import asyncio
import base64
from functools import cache
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
from later import Later
from realtime_rig import COMMIT, Socket, append, kinds, silence, spoken
from scripted import ScriptedPipeline, said

from pipelines.base.errors import ContextTooLong, EngineError
from pipelines.nodes.composing.speak import Speak
from pipelines.values.node_values import SpokenSound
from pipelines.values.reply_values import SpokenPart, ToolCallPiece
from server.apis.realtime.conversation_items import MAX_ITEMS

PATH = "/v1/realtime?model=tiny"
NEWER, OLDER = Later("openai.types.realtime"), Later("openai.types.beta.realtime")
HI = [said("Hel"), said("lo"), said("", "stop")]
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
CREATE = {"type": "response.create"}
DONE = "response.done"
VOICED = [
    said("One. "),
    said("Two"),
    said("", spoken=[SpokenPart("One. ", SpokenSound(np.full(1600, 5, np.int16), 16_000))]),
    said("", spoken=[SpokenPart("Two", SpokenSound(np.full(16_000, 7, np.int16), 16_000))]),
    said("", "stop"),
]


class Voice(Speak):
    """A line that speaks, whose voice needs no model."""

    voices = SimpleNamespace(voice=lambda name: name)


@cache
def known(module):
    """The classes of the events of a module of OpenAI's client, by the value of `type`."""
    classes = get_args(get_args(module.RealtimeServerEvent)[0])
    return {get_args(each.model_fields["type"].annotation)[0]: each for each in classes}


def check(events, module=NEWER):
    """Each is what OpenAI's client says that it is."""
    for event in events:
        known(module)[event["type"]].model_validate(event)


@pytest.fixture
def talk(make_rig):
    """Runs a scenario with the socket of a conversation whose model says `updates`."""

    def talk(scenario, updates=HI, path=PATH, speaks=False, settings=None, **headers):
        talk.pipeline = ScriptedPipeline()
        talk.pipeline.batches = [
            [(0, update_there)] if hasattr(update_there, "piece") else update_there
            for update_there in updates
        ]
        if speaks:
            talk.pipeline.lines.append(SimpleNamespace(node=Voice(Speak.Config(graph="joe"), None)))
        talk.rig = make_rig(talk.pipeline, **(settings or {}))

        async def whole(client):
            async with Socket(talk.rig.app, path, **headers) as socket:
                return await scenario(socket)

        return talk.rig.run(whole)

    return talk


def item(**fields):
    return {"type": "conversation.item.create", "item": USER | fields}


def update(**session):
    return {"type": "session.update", "session": {"type": "realtime", **session}}


def text_of(events, kind):
    return "".join(each["delta"] for each in events if each["type"] == kind)


def test_a_turn_in_text(talk):
    async def scenario(socket):
        socket.say(update(instructions="Be brief.", max_output_tokens=9), item(), CREATE)
        return [socket.created, *await socket.until(DONE)]

    created, updated, *events = talk(scenario)
    check([created, updated, *events])
    assert (created["session"]["model"], created["session"]["output_modalities"]) == ("tiny", ["text"])
    assert updated["session"]["instructions"] == "Be brief."
    assert kinds(events) == [
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        DONE,
    ]
    done = events[-1]["response"]
    assert done["status"] == "completed"
    assert done["output"][0]["content"] == [{"type": "output_text", "text": "Hello"}]
    assert done["usage"]["total_tokens"] == done["usage"]["input_tokens"] + 3
    asked = talk.pipeline.asked
    assert [message["content"] for message in asked.messages] == ["Be brief.", "hi"]
    assert (asked.sampling["max_tokens"], asked.streams, asked.spoken) == (9, True, None)
    assert talk.pipeline.calls[0].closed
    assert talk.rig.services.admission.num_inside == 0


def test_a_spoken_turn(talk):
    async def scenario(socket):
        socket.say(update(audio={"output": {"voice": "marin", "speed": 1.5}}), item(), CREATE)
        return await socket.until(DONE)

    _, *events = talk(scenario, VOICED, speaks=True)
    check(events)
    sound = [event for event in events if event["type"] == "response.output_audio.delta"]
    samples = np.concatenate(
        [np.frombuffer(base64.b64decode(delta_event["delta"]), "<i2") for delta_event in sound]
    )
    assert len(samples) == 26_400
    assert len(sound) == 4  # pieces of 0.4 seconds at most
    assert text_of(events, "response.output_audio_transcript.delta") == "One. Two"
    assert events[-1]["response"]["output"][0]["content"] == [
        {"type": "output_audio", "transcript": "One. Two"}
    ]
    assert (talk.pipeline.asked.spoken.voice, talk.pipeline.asked.spoken.speed) == ("marin", 1.5)


def test_the_beta(talk):
    async def scenario(socket):
        session = {"modalities": ["text", "audio"], "voice": "alloy", "turn_detection": None}
        session |= {"input_audio_format": "pcm16", "max_response_output_tokens": "inf", "temperature": 0.7}
        socket.say({"type": "session.update", "session": session}, item(), CREATE)
        return [socket.created, *await socket.until(DONE)]

    events = talk(scenario, VOICED, speaks=True, openai_beta="realtime=v1")
    for event in events[:2]:
        event["session"]["model"] = "gpt-realtime"  # its type knows OpenAI's models alone
    check(events, OLDER)
    assert events[1]["session"]["turn_detection"] is None
    assert talk.pipeline.asked.sampling["temperature"] == 0.7
    assert {"response.audio.delta", "response.audio_transcript.delta", "conversation.item.created"} <= {
        *kinds(events)
    }


def test_a_socket_becomes_a_conversation_by_its_update(talk):
    async def scenario(socket):
        socket.say(update(), item(), CREATE)
        return [socket.created, *await socket.until(DONE)]

    created, *events = talk(scenario, path="/v1/realtime")
    assert created["session"]["type"] == "transcription"
    assert events[0]["session"]["type"] == "realtime"
    assert events[-1]["response"]["status"] == "completed"


def test_the_conversation_grows(talk):
    async def scenario(socket):
        socket.say(item(id="first"), CREATE)
        (*_, done) = await socket.until(DONE)
        reply = done["response"]["output"][0]["id"]
        socket.say({**item(id="second"), "previous_item_id": "root"}, CREATE)
        await socket.until(DONE)
        before = talk.pipeline.asked.messages
        socket.say({"type": "conversation.item.delete", "item_id": "second"})
        deleted = await socket.event()
        socket.say({"type": "conversation.item.retrieve", "item_id": reply})
        retrieved = await socket.event()
        asked = {"conversation": "none", "input": [USER, {"type": "item_reference", "id": "first"}]}
        socket.say(CREATE | {"response": asked | {"instructions": "Sum up.", "metadata": {"topic": "a"}}})
        return before, deleted, retrieved, await socket.until(DONE)

    before, deleted, retrieved, beside = talk(scenario)
    check([deleted, retrieved, *beside])
    assert [item_there["role"] for item_there in before] == ["user", "user", "assistant"]
    assert retrieved["item"]["content"] == [{"type": "output_text", "text": "Hello"}]
    assert "conversation.item.added" not in kinds(beside)
    assert beside[-1]["response"]["metadata"] == {"topic": "a"}
    assert [message["content"] for message in talk.pipeline.asked.messages] == ["Sum up.", "hi", "hi"]


def test_a_response_is_cancelled(talk):
    async def scenario(socket):
        socket.say(item(), CREATE)
        await socket.until("response.output_audio.delta")
        socket.say(CREATE, {"type": "response.cancel"})
        events = await socket.until(DONE)
        socket.say({"type": "response.cancel"})
        return [*events, await socket.event()]

    busy, *events, idle = talk(scenario, [*VOICED[:3], "forever"], speaks=True)
    check([busy, *events, idle])
    assert busy["error"]["code"] == "conversation_already_has_active_response"
    assert idle["error"]["code"] == "response_cancel_not_active"
    done = events[-1]["response"]
    assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "client_cancelled")
    assert done["output"][0]["status"] == "incomplete"
    assert done["output"][0]["content"][0]["transcript"] == "One. "  # what was spoken
    assert talk.pipeline.calls[0].closed
    assert talk.rig.services.admission.num_inside == 0


def test_sound_that_was_not_heard_is_forgotten(talk):
    async def scenario(socket):
        socket.say(item(), CREATE)
        (*_, done) = await socket.until(DONE)
        name = done["response"]["output"][0]["id"]
        cut = {"type": "conversation.item.truncate", "item_id": name, "content_index": 0}
        socket.say(cut | {"audio_end_ms": 150})
        truncated = await socket.event()
        socket.say({"type": "conversation.item.retrieve", "item_id": name})
        return truncated, await socket.event()

    truncated, retrieved = talk(scenario, VOICED, speaks=True)
    check([truncated, retrieved])
    assert retrieved["item"]["content"][0]["transcript"] == "One. "


def test_calls_of_functions(talk):
    tool = {"type": "function", "name": "add", "parameters": {"type": "object"}}
    called = [
        said("", tool_calls=[ToolCallPiece(0, id="call_1", name="add")]),
        said("", tool_calls=[ToolCallPiece(0, '{"a": 1}')]),
        said("", "tool_calls"),  # as the parser of a graph says it
    ]

    async def scenario(socket):
        socket.say(update(tools=[tool], tool_choice="required"), item(), CREATE)
        events = await socket.until(DONE)
        gave = {"type": "function_call_output", "call_id": "call_1", "output": "2"}
        socket.say({"type": "conversation.item.create", "item": gave}, CREATE)
        await socket.until(DONE)
        return events

    _, *events = talk(scenario, called)
    check(events)
    assert text_of(events, "response.function_call_arguments.delta") == '{"a": 1}'
    response = events[-1]["response"]
    (call,) = response["output"]
    assert (response["status"], response["status_details"], call["status"]) == (
        "completed",
        None,
        "completed",
    )
    assert (call["type"], call["name"], call["call_id"], call["arguments"]) == (
        "function_call",
        "add",
        "call_1",
        '{"a": 1}',
    )
    messages = talk.pipeline.asked.messages
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert messages[1]["tool_calls"][0]["function"]["name"] == "add"
    assert talk.pipeline.asked.tools[0]["function"]["name"] == "add"


def test_speech_interrupts_a_response(talk):
    """Without a wish for its text, what is said goes to the model as sound."""

    async def scenario(socket):
        vad = {"type": "server_vad", "silence_duration_ms": 200, "create_response": False}
        sound = {"format": {"type": "audio/pcm", "rate": 16_000}, "turn_detection": vad}
        socket.say(update(audio={"input": sound}), item(), CREATE)
        await socket.until("response.output_text.delta")
        socket.say(append(silence(0.5)), append(spoken(1)), append(silence(0.5)))
        events = await socket.until("conversation.item.done")
        while events[-1]["item"]["role"] != "user":
            events += await socket.until("conversation.item.done")
        talk.pipeline.batches = [[(0, said("", "stop"))]]
        socket.say(CREATE)
        return events, await socket.until(DONE)

    events, last = talk(scenario, [HI[0], "forever"])
    check(events)
    assert kinds(events)[0] == "input_audio_buffer.speech_started"
    (done,) = [event["response"] for event in events if event["type"] == DONE]
    assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "turn_detected")
    assert events[-1]["item"]["content"] == [{"type": "input_audio", "transcript": None}]
    failed = last[-1]["response"]["status_details"]["error"]  # this model takes no sound
    assert "input_audio" in failed["message"]
    assert talk.rig.services.admission.num_inside == 0


def test_a_conversation_that_is_too_long_loses_its_oldest_turns(talk):
    async def scenario(socket):
        for _ in range(3):
            socket.say(item(), CREATE)
            await socket.until(DONE)
        prepare, tried = talk.pipeline.prepare, []

        def prepare_short(generation, *others, **more):
            tried.append(len(generation.messages))
            if len(generation.messages) > 3:
                raise ContextTooLong("too long")
            return prepare(generation, *others, **more)

        talk.pipeline.prepare = prepare_short
        socket.say(item(), CREATE)
        (*_, fits) = await socket.until(DONE)
        socket.say(update(truncation="disabled"), CREATE)
        (*_, fails) = await socket.until(DONE)
        return tried, fits, fails

    tried, fits, fails = talk(scenario)
    assert tried == [7, 3, 5, 3, 8]  # by halves, then the longest of those that fit
    assert fits["response"]["status"] == "completed"
    assert fails["response"]["status_details"]["error"]["code"] == "context_length_exceeded"


def test_a_failure_ends_the_response(talk):
    async def scenario(socket):
        socket.say(item(), CREATE)
        return await socket.until(DONE)

    events = talk(scenario, [HI[0], EngineError("the step failed")])
    check(events)
    assert events[-1]["response"]["status_details"]["error"]["message"] == "the step failed"
    assert events[-1]["response"]["output"][0]["status"] == "incomplete"


REFUSED = {
    "audio of a model of text": (update(output_modalities=["audio"]), "output_modalities"),
    "both": (update(output_modalities=["text", "text"]), "session.output_modalities"),
    "another model": (update(model="other"), "session.model"),
    "stored prompt": (update(prompt={"id": "p"}), "session.prompt"),
    "hosted tool": (update(tools=[{"type": "mcp", "server_label": "a"}]), "tools.0.type"),
    "another form": (
        update(audio={"input": {"format": {"type": "audio/opus"}}}),
        "session.audio.input.format.type",
    ),
    "a telephone's rate": (
        update(audio={"input": {"format": {"type": "audio/pcmu", "rate": 16_000}}}),
        "session.audio.input.format",
    ),
    "turns by both": (
        update(audio={"input": {"turn_detection": {"type": "server_vad", "eagerness": "low"}}}),
        "session.audio.input.turn_detection",
    ),
    "another form of the beta": (update(output_audio_format="mp3"), "session.audio.output.format.type"),
    "no such item": ({"type": "conversation.item.delete", "item_id": "x"}, "item_id"),
    "no such place": ({**item(), "previous_item_id": "x"}, "previous_item_id"),
    "no text": (item(content=[{"type": "input_text"}]), "item.content.0.text"),
    "no role": (item(role=None), "item"),
    "no sound": (item(content=[{"type": "input_audio", "audio": "?"}]), "audio"),
    "no call": (
        {"type": "conversation.item.create", "item": {"type": "function_call", "name": "f"}},
        "item.call_id",
    ),
    "text is not cut": (
        {"type": "conversation.item.truncate", "item_id": "known", "audio_end_ms": 1},
        "item_id",
    ),
    "known name": (item(id="known"), "item.id"),
    "output of another kind": (CREATE | {"response": {"max_output_tokens": 0}}, "response.max_output_tokens"),
    "no event": ({"type": "response.start"}, "type"),
    "nothing said": (COMMIT, None),
}


def test_what_is_wrong_is_named(talk):
    async def scenario(socket):
        socket.say(item(id="known"))
        await socket.until("conversation.item.done")
        answers = {}
        for name, (event, _) in REFUSED.items():
            socket.say(event)
            answers[name] = await socket.event()
        return answers

    answers = talk(scenario)
    check(answers.values())
    named = {name: event["error"]["param"] for name, event in answers.items()}
    assert named == {name: param for name, (_, param) in REFUSED.items()}


def test_sound_is_held_no_longer_than_it_is_needed(talk):
    sound = {"type": "input_audio", "audio": append(spoken(1, 24_000))["audio"]}

    async def scenario(socket):
        for _ in range(3):  # three seconds are the most
            socket.say(item(content=[sound, sound], role=None))
            assert (await socket.event())["type"] == "error"
            asked = {"conversation": "none", "input": [USER | {"content": [sound, sound]}]}
            socket.say(CREATE | {"response": asked})
            (*_, done) = await socket.until(DONE)
            assert "input_audio" in done["response"]["status_details"]["error"]["message"]
        socket.say(item(content=[sound] * 4))
        too_much = await socket.event()
        for _ in range(2):
            socket.say(item(content=[sound, sound], id="loud"))
            await socket.until("conversation.item.done")
            socket.say({"type": "conversation.item.delete", "item_id": "loud"})
            await socket.until("conversation.item.deleted")
        return too_much

    too_much = talk(scenario, settings={"max_audio_s": 3})
    assert too_much["error"]["param"] == "audio"


def test_items_are_bounded(talk):
    async def scenario(socket):
        for _ in range(MAX_ITEMS):
            socket.say(item())
            await socket.until("conversation.item.done")
        socket.say(item())
        refused = await socket.event()
        socket.say(CREATE)  # the oldest leave for what is said
        return refused, await socket.until(DONE)

    refused, events = talk(scenario)
    assert "1000 items" in refused["error"]["message"]
    assert events[-1]["response"]["status"] == "completed"


def test_a_client_that_hangs_up_leaves_nothing(talk):
    async def scenario(socket):
        socket.say(item(), CREATE)
        await socket.until("response.output_text.delta")
        socket.hang_up()
        await socket.ended()
        async with asyncio.timeout(10):
            while not talk.pipeline.calls[0].closed or talk.rig.services.admission.num_inside:
                await asyncio.sleep(0.01)

    talk(scenario, [HI[0], "forever"])
