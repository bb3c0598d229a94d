"""G.711 in events of sound: Python's audioop and ffmpeg read and write the same bytes."""

import base64
import warnings

import av
import numpy as np
import pytest
from realtime_rig import append, kinds, silence, spoken
from test_conversations import CREATE, DONE, VOICED, check, item, talk, update  # noqa: F401  talk is a fixture

from server.apis.realtime.pcm import TELEPHONE_RATE, SoundForm

EVERY_SAMPLE = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
EVERY_CODE = np.arange(256, dtype=np.uint8)
LAWS = {"audio/pcmu": "ulaw", "audio/pcma": "alaw"}


@pytest.mark.parametrize("kind", LAWS)
def test_each_code_and_each_sample_as_audioop_has_them(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        audioop = pytest.importorskip("audioop", reason="Python has it up to 3.12")
    form, law = SoundForm(kind, TELEPHONE_RATE), LAWS[kind]
    decoded = getattr(audioop, f"{law}2lin")(EVERY_CODE.tobytes(), 2)
    assert form.read(EVERY_CODE.tobytes()).tobytes() == decoded
    assert form.write(EVERY_SAMPLE) == getattr(audioop, f"lin2{law}")(EVERY_SAMPLE.tobytes(), 2)


@pytest.mark.parametrize(("kind", "codec"), [("audio/pcmu", "pcm_mulaw"), ("audio/pcma", "pcm_alaw")])
def test_ffmpeg_hears_the_same_samples(kind, codec):
    samples = (9000 * np.sin(np.arange(4000) / 9)).astype(np.int16)
    codes = SoundForm(kind, TELEPHONE_RATE).write(samples)
    decoder = av.CodecContext.create(codec, "r")
    decoder.sample_rate, decoder.layout = TELEPHONE_RATE, "mono"
    heard = [frame.to_ndarray()[0] for frame in decoder.decode(av.Packet(codes))]
    assert np.array_equal(np.concatenate(heard), SoundForm(kind, TELEPHONE_RATE).read(codes))
    assert np.abs(np.concatenate(heard).astype(int) - samples).max() < 300


@pytest.mark.parametrize("kind", LAWS)
def test_a_telephone_s_conversation(talk, kind):  # noqa: F811
    """Speech is found in its sound, and the reply's sound is as long as it is at another rate."""
    form = SoundForm(kind, TELEPHONE_RATE)

    def coded(sound):
        return append(form.write(np.frombuffer(sound, "<i2")))

    async def scenario(socket):
        sound = {"format": {"type": kind}}
        vad = {"type": "server_vad", "silence_duration_ms": 200, "create_response": False}
        socket.say(update(audio={"input": sound | {"turn_detection": vad}, "output": sound}))
        socket.say(coded(silence(0.5, 8000)), coded(spoken(1, 8000)), coded(silence(0.5, 8000)))
        heard = await socket.until("conversation.item.done")
        socket.say({"type": "conversation.item.delete", "item_id": heard[-1]["item"]["id"]}, item(), CREATE)
        return heard, await socket.until(DONE)

    heard, events = talk(scenario, VOICED, speaks=True)
    check([*heard, *events])
    shown = heard[0]["session"]["audio"]
    assert (shown["input"]["format"], shown["output"]["format"]) == ({"type": kind}, {"type": kind})
    assert "input_audio_buffer.speech_stopped" in kinds(heard)
    sound = [event["delta"] for event in events if event["type"] == "response.output_audio.delta"]
    codes = b"".join(map(base64.b64decode, sound))
    assert len(codes) == 8800  # 1.1 seconds
    assert set(form.read(codes[-4000:]).tolist()) <= {0, 8}  # the voice's quiet 7, as near as the codes are


def test_the_beta_s_words(talk):  # noqa: F811
    async def scenario(socket):
        session = {"input_audio_format": "g711_alaw", "output_audio_format": "g711_ulaw"}
        socket.say({"type": "session.update", "session": session})
        return await socket.event()

    updated = talk(scenario, VOICED, speaks=True, openai_beta="realtime=v1")
    assert (updated["session"]["input_audio_format"], updated["session"]["output_audio_format"]) == (
        "g711_alaw",
        "g711_ulaw",
    )


@pytest.mark.parametrize(
    ("eagerness", "quiet_s", "energy"),
    [("high", 2, {"threshold": 0.4}), ("auto", 4, {"prefix_padding_ms": 200}), (None, 4, {}), ("low", 8, {})],
)
def test_a_turn_by_meaning_ends_after_openai_s_longest_wait(talk, eagerness, quiet_s, energy):  # noqa: F811
    """Its energy is bounded as that of `server_vad`: the session shows the bounds that were given."""

    async def scenario(socket):
        vad = {"type": "semantic_vad", "eagerness": eagerness, "create_response": False, **energy}
        sound = {"format": {"type": "audio/pcm", "rate": 24_000}, "turn_detection": vad}
        socket.say(update(audio={"input": sound}))
        socket.say(append(silence(0.5, 24_000)), append(spoken(1, 24_000)))
        socket.say(append(silence(quiet_s - 0.2, 24_000)), {"type": "response.cancel"})
        before = await socket.until("error")
        socket.say(append(silence(0.5, 24_000)))
        return before, await socket.event()

    before, stopped = talk(scenario, VOICED)
    check(before)
    turns = before[0]["session"]["audio"]["input"]["turn_detection"]
    assert turns == {
        "type": "semantic_vad",
        "eagerness": eagerness or "auto",
        **energy,
        "create_response": False,
        "interrupt_response": True,
    }
    assert kinds(before) == ["session.updated", "input_audio_buffer.speech_started", "error"]
    assert stopped["type"] == "input_audio_buffer.speech_stopped"


@pytest.mark.parametrize("before", [{"type": "semantic_vad", "eagerness": "low"}, None])
def test_speech_that_has_begun_ends_by_the_turns_of_a_later_update(talk, before):  # noqa: F811
    """It ended never: an update in the middle of a word forgot that someone speaks."""

    def set_to(kind, turns):
        turns = turns and {**turns, "create_response": False}
        return update(audio={"input": {"format": {"type": kind}, "turn_detection": turns}})

    async def scenario(socket):
        pcmu, pcma = (SoundForm(kind, TELEPHONE_RATE) for kind in LAWS)
        quiet, loud = (np.frombuffer(sound, "<i2") for sound in (silence(0.5, 8000), spoken(1, 8000)))
        socket.say(set_to("audio/pcmu", before), append(pcmu.write(quiet)), append(pcmu.write(loud)))
        socket.say(set_to("audio/pcma", {"type": "server_vad", "silence_duration_ms": 200}))
        socket.say(append(pcma.write(quiet)))
        events = await socket.until("conversation.item.done")
        socket.say(append(pcma.write(loud)), append(pcma.write(quiet)))
        return events, await socket.until("conversation.item.done")

    first, second = talk(scenario, VOICED)
    check([*first, *second])
    assert kinds(first).count("input_audio_buffer.speech_stopped") == 1
    assert kinds(first).count("input_audio_buffer.speech_started") == (before is not None)
    assert kinds(second).count("input_audio_buffer.speech_started") == 1
    assert first[-1]["item"]["id"] != second[-1]["item"]["id"]
