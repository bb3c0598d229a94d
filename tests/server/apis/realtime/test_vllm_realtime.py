"""vLLM's events at realtime: starting, growing text, ends, errors that never close the socket."""

import asyncio

from realtime_rig import (
    COMMIT,
    FINAL,
    UPDATE,
    WORDS,
    Socket,
    append,
    kinds,
    one_word_each_second,
    silence,
    spoken,
    text_of,
)
from scripted import ModelCard
from speech_rig import SpeechPipeline

import server.apis.realtime.vllm_realtime as vllm
from pipelines.base.errors import EngineError, Overloaded

DONE = "transcription.done"


def said(num_words):
    return "".join(WORDS[:num_words]).strip()


async def spoken_until(socket, num_words):
    """Seconds of sound until so many words have come; the events, and the number of seconds."""
    events, seconds = [], 0
    while len(text_of(events).split()) < num_words and seconds < 28:
        socket.say(append(spoken(1)))
        seconds += 1
        try:
            events.append(await asyncio.wait_for(socket.event(), 0.3))
        except TimeoutError:
            continue  # the first reading, or a slow machine
    return events, seconds


def test_what_the_first_event_says(live):
    async def scenario(socket):
        return socket.created

    created = live(scenario)
    assert (created["type"], created["id"][:5]) == ("session.created", "sess-")
    assert isinstance(created["created"], int)


def test_text_comes_before_the_utterance_ends(live):
    async def scenario(socket):
        socket.say(UPDATE, COMMIT)
        events, seconds = await spoken_until(socket, 3)
        socket.say(FINAL)
        return events, seconds, await socket.until(DONE)

    before, seconds, after = live(scenario)
    assert set(kinds(before)) == {"transcription.delta"}
    assert text_of(before + after[:-1]) == after[-1]["text"] == said(seconds)
    usage = after[-1]["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


def test_a_reading_continues_what_was_sent(live):
    async def scenario(socket):
        socket.say(UPDATE, COMMIT)
        await spoken_until(socket, 2)
        socket.say(append(spoken(1)), FINAL)
        return await socket.until(DONE)

    done = live(scenario)[-1]
    begun = [request.begins_with for request in live.pipeline.requests]
    assert begun == sorted(begun, key=len)
    assert all(done["text"].startswith(text_begun) for text_begun in begun)
    assert begun[-1]
    assert live.pipeline.asked.language == "en"  # as the reading before it found


def test_long_sound_is_read_in_windows(live):
    async def scenario(socket):
        socket.say(COMMIT, *[append(spoken(5))] * 14, FINAL)
        return await socket.until(DONE)

    *_, done = live(scenario)
    assert done["text"] == said(len(done["text"].split()))
    assert 67 <= len(done["text"].split()) <= 70  # a cut may divide a word
    lengths = [len(request.windows[0]) / 16_000 for request in live.pipeline.requests]
    assert max(lengths) <= 30
    assert live.pipeline.asked.previous_text == said(len(live.pipeline.asked.previous_text.split()))


def test_silence_is_not_read(live):
    async def scenario(socket):
        socket.say(COMMIT, *[append(silence(1))] * 9, FINAL)
        return await socket.until(DONE)

    assert live(scenario)[-1]["text"] == ""
    assert live.pipeline.requests == []


def test_a_pause_ends_a_window(live):
    async def scenario(socket):
        socket.say(COMMIT)
        _, seconds = await spoken_until(socket, 2)
        for _ in range(12):
            socket.say(append(silence(0.5)))
            await asyncio.sleep(0.1)
        socket.say(append(spoken(2)), FINAL)
        return seconds, await socket.until(DONE)

    seconds, events = live(scenario)
    assert events[-1]["text"].startswith(said(seconds))
    assert live.pipeline.asked.previous_text.startswith("w1 w2")


def test_several_utterances_on_one_socket(live):
    async def scenario(socket):
        socket.say(UPDATE, COMMIT, append(spoken(2)), FINAL, append(spoken(3)), COMMIT, COMMIT, FINAL)
        return [(await socket.until(DONE))[-1]["text"] for _ in range(2)]

    assert live(scenario) == [said(2), said(3)]


def test_a_commit_after_the_sound_ends_with_a_pause(live, monkeypatch):
    monkeypatch.setattr(vllm, "PAUSE_S", 0.05)

    async def scenario(socket):
        socket.say(append(spoken(2)), COMMIT)
        return await socket.until(DONE)

    assert live(scenario)[-1]["text"] == said(2)


def test_an_end_without_sound_has_an_empty_text(live):
    async def scenario(socket):
        socket.say(FINAL)
        return await socket.event()

    done = live(scenario)
    assert (done["type"], done["text"], done["usage"]["total_tokens"]) == (DONE, "", 0)


BAD = [
    ("{", "invalid_json", "Invalid JSON"),
    ("[" * 100, "invalid_event", "the body is nested deeper than 64 levels"),
    ("[1]", "invalid_event", None),
    (b"\x00", "invalid_event", None),
    ({"type": "session.update"}, "invalid_event", "Missing required field: model"),
    ({"type": "session.update", "model": 5}, "invalid_event", None),
    (UPDATE | {"model": "other"}, "model_not_found", "The model `other` does not exist; models: tiny"),
    ({"type": "input_audio_buffer.append"}, "invalid_event", "Missing required field: audio"),
    ({"type": "input_audio_buffer.append", "audio": "?"}, "invalid_audio", "Invalid audio data"),
    (append(b""), "invalid_audio", "Invalid audio data"),
    (append(b"123"), "invalid_audio", "Invalid audio data"),
    (COMMIT | {"final": "yes"}, "invalid_event", None),
    ({"type": "response.create"}, "unknown_event", "Unknown event type: response.create"),
    ({"type": ["x"]}, "unknown_event", None),
    ({}, "unknown_event", "Unknown event type: None"),
]


def test_errors_have_codes_and_close_nothing(live):
    async def scenario(socket):
        errors = []
        for event, _, _ in BAD:
            socket.say(event)
            errors.append(await socket.event())
        socket.say(UPDATE, append(spoken(2)), FINAL)
        return errors, await socket.until(DONE)

    errors, events = live(scenario)
    assert events[-1]["text"] == said(2)
    for (event, code, text), error in zip(BAD, errors, strict=True):
        assert set(error) == {"type", "error", "code"}, event
        assert (error["type"], error["code"]) == ("error", code), event
        assert text is None or error["error"] == text


def test_where_several_models_read_speech_one_must_be_named(make_rig):
    rig = make_rig(SpeechPipeline(one_word_each_second))
    rig.services.catalogue.models += [ModelCard("b", 1, 0, 448, "ready", [], "transcribe")]

    async def scenario(_):
        async with Socket(rig.app) as socket:
            socket.say(COMMIT)
            error = await socket.event()
        async with Socket(rig.app, "/v1/realtime?model=tiny") as socket:
            socket.say(append(spoken(2)), FINAL)
            return error, await socket.until(DONE)

    error, events = rig.run(scenario)
    assert error["code"] == "model_not_validated"
    assert error["error"].startswith("Model not validated. Make sure to validate the model")
    assert events[-1]["text"] == said(2)


def test_a_model_of_another_task_is_not_found(make_rig):
    async def scenario(_):
        async with Socket(rig.app) as socket:
            socket.say(UPDATE)
            return await socket.event()

    rig = make_rig()
    error = rig.run(scenario)
    assert error["code"] == "model_not_found"
    assert "does not transcribe speech" in error["error"]


def test_a_reading_that_fails_ends_its_utterance_alone(live):
    failing = [True]

    def script(request):
        if failing.pop() if failing else False:
            raise EngineError("the step failed")
        return one_word_each_second(request)

    async def scenario(socket):
        socket.say(append(spoken(2)), FINAL, append(spoken(2)), FINAL)
        return await socket.event(), await socket.until(DONE)

    error, events = live(scenario, script=script)
    assert error == {"type": "error", "error": "the step failed", "code": "processing_error"}
    assert events[-1]["text"] == said(2)
    assert live.rig.services.admission.num_inside == 0


def test_an_overloaded_worker_reads_less_often(live):
    """A growing window waits for its next turn; the last reading is refused."""

    async def scenario(socket):
        enter = live.rig.services.admission.enter

        def refuse(tenant=""):
            raise Overloaded("full")

        live.rig.services.admission.enter = refuse
        socket.say(COMMIT, append(spoken(3)))
        await asyncio.sleep(0.1)
        live.rig.services.admission.enter = enter
        socket.say(append(spoken(1)), FINAL)
        events = await socket.until(DONE)
        live.rig.services.admission.enter = refuse
        socket.say(append(spoken(3)), FINAL)
        return events, await socket.event()

    events, error = live(scenario)
    assert events[-1]["text"] == said(4)
    assert error["code"] == "rate_limit_exceeded"


def test_sound_that_waits_is_bounded(live):
    """What is beyond is refused; what came before becomes text."""

    async def scenario(socket):
        socket.say(append(spoken(3)), append(spoken(3)), append(spoken(1)), FINAL)
        return await socket.event(), await socket.until(DONE)

    error, events = live(scenario, settings={"max_audio_s": 5})
    assert error["code"] == "invalid_audio"
    assert "More than 5 seconds of sound wait" in error["error"]
    assert events[-1]["text"] == said(4)
