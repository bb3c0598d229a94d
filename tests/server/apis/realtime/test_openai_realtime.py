"""OpenAI's events of transcription sessions at realtime, read with the types of its client."""

import asyncio
from functools import cache
from typing import get_args

import pytest
from later import Later
from realtime_rig import COMMIT, WORDS, Socket, append, kinds, silence, spoken, text_of

from pipelines.base.errors import EngineError

PATH = "/v1/realtime?intent=transcription"
TEXT = "conversation.item.input_audio_transcription"
COMPLETED = f"{TEXT}.completed"
ANNOUNCED = ["input_audio_buffer.committed", "conversation.item.added", "conversation.item.done"]


NEWER, OLDER = Later("openai.types.realtime"), Later("openai.types.beta.realtime")


@cache
def known(module):
    """The classes of the events of a module of OpenAI's client, by the value of `type`."""
    classes = get_args(get_args(module.RealtimeServerEvent)[0])
    return {get_args(each.model_fields["type"].annotation)[0]: each for each in classes}


def check(events, module=NEWER):
    """Each is what OpenAI's client says that it is."""
    for event in events:
        known(module)[event["type"]].model_validate(event)


def update(turn_detection=None, rate=16_000, **more):
    sound = {"turn_detection": turn_detection, "format": {"type": "audio/pcm", "rate": rate}, **more}
    return {"type": "session.update", "session": {"type": "transcription", "audio": {"input": sound}}}


def said(first, last):
    return "".join(WORDS[first:last]).strip()


def test_a_turn_that_the_client_ends(live):
    async def scenario(socket):
        sound = append(spoken(2, 24_000))
        socket.say(update(rate=24_000), sound, sound, COMMIT)
        return [socket.created, *await socket.until(COMPLETED)]

    created, updated, *events = live(scenario, PATH)
    check([created, updated, *events])
    assert created["session"]["audio"]["input"]["turn_detection"]["type"] == "server_vad"
    assert updated["session"]["audio"]["input"]["turn_detection"] is None
    assert [kind for kind in kinds(events) if not kind.endswith(".delta")] == [*ANNOUNCED, COMPLETED]
    assert len({event.get("item_id") or event["item"]["id"] for event in events}) == 1
    assert text_of(events) == events[-1]["transcript"] == said(0, 3)  # a resampler holds the end back
    assert events[-1]["usage"] == {"type": "duration", "seconds": pytest.approx(4, abs=0.01)}


def test_turns_that_the_server_finds(live):
    async def scenario(socket):
        vad = {"type": "server_vad", "prefix_padding_ms": 100, "silence_duration_ms": 200}
        socket.say(update(vad))
        for sound in (silence(1), spoken(2.5), silence(1), spoken(1.5), silence(1)):
            for at in range(0, len(sound), 3200):
                socket.say(append(sound[at : at + 3200]))
        return [*await socket.until(COMPLETED), *await socket.until(COMPLETED)]

    _, *events = live(scenario, PATH)
    check(events)
    started = [event["audio_start_ms"] for event in events if event["type"].endswith("speech_started")]
    stopped = [event["audio_end_ms"] for event in events if event["type"].endswith("speech_stopped")]
    assert len(started) == len(stopped) == 2
    assert started[0] == pytest.approx(900, abs=40)
    assert stopped[0] == pytest.approx(3700, abs=150)
    assert started[1] == pytest.approx(4400, abs=40)
    first, second = [event for event in events if event["type"] == "input_audio_buffer.committed"]
    assert (first["previous_item_id"], second["previous_item_id"]) == (None, first["item_id"])
    assert [event["item_id"] for event in events if event["type"] == COMPLETED] == [
        first["item_id"],
        second["item_id"],
    ]


def test_the_events_of_the_beta(live):
    async def scenario(socket):
        socket.say(
            {
                "type": "transcription_session.update",
                "session": {
                    "input_audio_format": "pcm16",
                    "input_audio_transcription": {"model": "tiny", "language": "DE", "prompt": "Hallo"},
                    "turn_detection": None,
                },
            },
            append(spoken(3, 24_000)),
            COMMIT,
        )
        return await socket.until(COMPLETED)

    updated, *events = live(scenario, openai_beta="realtime=v1")
    assert updated["type"] == "transcription_session.updated"
    assert updated["session"]["input_audio_transcription"]["model"] == "tiny"
    check(events, OLDER)
    assert "conversation.item.created" in kinds(events)
    request = live.pipeline.asked
    assert (request.language, request.previous_text) == ("de", "Hallo")
    assert len(request.windows[0]) == pytest.approx(3 * 16_000, abs=32)  # of 24,000 a second


@pytest.mark.parametrize("is_named", [True, False])
def test_the_kind_of_events_is_chosen_by_the_address_or_the_first_update(live, is_named):
    async def scenario(socket):
        if is_named:
            socket.say({"type": "input_audio_buffer.clear", "event_id": "mine"})
        else:
            socket.say(update())
        return await socket.event()

    event = live(scenario, PATH if is_named else "/v1/realtime?model=tiny")
    assert event["type"] == ("input_audio_buffer.cleared" if is_named else "session.updated")


def test_what_a_session_refuses_names_its_field(live):
    cases = [
        (update({"type": "semantic_vad", "silence_duration_ms": 90}), "session.audio.input.turn_detection"),
        (update({"type": "server_vad", "threshold": 2}), "session.audio.input.turn_detection.threshold"),
        (update(rate=100), "session.audio.input.format.rate"),
        (update(transcription={"keywords": ["x"]}), "session.audio.input.transcription.keywords"),
        ({"type": "session.update", "session": {"type": "realtime"}}, "session.type"),
        ({"type": "session.update"}, "session"),
        (update(transcription={"model": "gpt-4o-transcribe"}), "model"),
        ({"type": "response.create"}, "type"),
        ({"type": "input_audio_buffer.append", "audio": 7}, "audio"),
    ]

    async def scenario(socket):
        errors = []
        for number, (event, _) in enumerate(cases):
            socket.say(event | {"event_id": str(number)})
            errors.append(await socket.event())
        return errors

    for number, ((event, field), error) in enumerate(zip(cases, live(scenario, PATH), strict=True)):
        check([error])
        assert error["type"] == "error", event
        assert error["error"]["param"] == field, error
        assert error["error"]["event_id"] == str(number)
        assert error["error"]["type"] == "invalid_request_error"


def test_too_little_sound_is_not_committed(live):
    async def scenario(socket):
        socket.say(update(), append(spoken(0.05)), COMMIT)
        return await socket.until("error")

    error = live(scenario, PATH)[-1]["error"]
    assert error["code"] == "input_audio_buffer_commit_empty"
    assert "buffer only has 50.00ms of audio" in error["message"]


def test_what_is_cleared_has_no_text(live):
    async def scenario(socket):
        socket.say(update(), append(spoken(3)))
        await asyncio.sleep(0.05)
        socket.say({"type": "input_audio_buffer.clear"}, append(spoken(2)), COMMIT)
        return await socket.until(COMPLETED)

    events = live(scenario, PATH)
    cleared = kinds(events).index("input_audio_buffer.cleared")
    assert events[-1]["transcript"] == said(0, 2)
    ids = [event.get("item_id") for event in events]
    assert ids[-1] not in ids[:cleared]


def test_a_reading_that_fails_fails_its_item(live):
    def script(request):
        raise EngineError("the step failed")

    async def scenario(socket):
        socket.say(update(), append(spoken(0.5)), COMMIT)
        return await socket.until(f"{TEXT}.failed")

    failed = live(scenario, PATH, script=script)[-1]
    check([failed])
    assert failed["error"]["message"] == "the step failed"


def test_a_session_may_change_between_turns(live):
    async def scenario(socket):
        socket.say(update(transcription={"language": "en"}), append(spoken(2)), COMMIT)
        first = await socket.until(COMPLETED)
        socket.say(update(rate=48_000, transcription={"prompt": "x"}), append(spoken(1.5, 48_000)), COMMIT)
        return first[-1], (await socket.until(COMPLETED))[-1]

    first, second = live(scenario, PATH)
    assert first["transcript"] == said(0, 2)
    assert second["usage"]["seconds"] == pytest.approx(1.5, abs=0.01)
    assert (live.pipeline.asked.language, live.pipeline.asked.previous_text) == ("en", "x")


def test_a_socket_without_an_update_has_turns_of_the_server(live):
    async def scenario(socket: Socket):
        socket.say(append(silence(0.5, 24_000)), append(spoken(1, 24_000)), append(silence(1, 24_000)))
        return await socket.until(COMPLETED)

    assert live(scenario, sec_websocket_protocol="realtime")[-1]["transcript"] == said(0, 1)
