"""A voice as a graph, with a real engine: sentence by sentence, over a real socket too."""

from __future__ import annotations

import numpy as np
import pytest
from served_models import in_one_process, over_a_socket
from tensor_models import write_onnx
from voice_models import IDS, SAMPLES_PER_ID, write_voice

import pipelines.nodes.voice.phonemes as phonemes
from pipelines.base.errors import RequestError
from pipelines.loading.inspection import inspect
from pipelines.nodes.voice import espeak
from pipelines.repository.new_graph import new_graph
from pipelines.values.tasks import SpeakInput

SPEAKERS = """speakers (int64[b, n] input, int64[b] input_lengths, float[3] scales, int64[b] sid)
  => (float[b] output) { output = Cast <to = 1> (sid) }"""


@pytest.fixture
def models(tmp_path):
    write_voice(tmp_path / "models" / "tiny")
    return tmp_path / "models"


async def spoken(client, catalogue, *fields, **more):
    call = catalogue.get("tiny").open(SpeakInput(*fields, **more), client)
    try:
        return [sound async for sound in call.parts()], call, client.num_in_flight
    finally:
        call.close()


def heights(sound, speed=1.0):
    """The ids that the samples are made of."""
    tops = sound.samples[:: int(SAMPLES_PER_ID / speed)].astype(float)
    return np.rint(tops / 32_767 * max(number for [number] in IDS.values())).astype(int)


@pytest.mark.parametrize("serve", [in_one_process, over_a_socket], ids=["in process", "socket"])
def test_a_text_becomes_sound(serve, models):
    async def scene(client, catalogue):
        return await spoken(client, catalogue, "\u0301é.", speed=2.0)

    (sound,), call, in_flight = serve(scene, models)
    ids = [1, 0, *(IDS["\u0301"] + [0]), *(IDS["e"] + [0]), *(IDS["\u0301"] + [0]), *(IDS["."] + [0]), 2]
    assert (sound.rate, in_flight, call.prompt_lengths) == (16_000, 0, [])
    assert heights(sound, 2.0).tolist() == ids


def test_long_texts_come_in_parts_and_few_wait_at_a_time(models, monkeypatch):
    monkeypatch.setattr(phonemes, "MAX_PHONEMES", 4)

    async def scene(client, catalogue):
        call = catalogue.get("tiny").open(SpeakInput("aaa bbb ccc ddd eee"), client)
        lengths, waiting, sounds = call.prompt_lengths, [], []
        async for sound in call.parts():
            waiting.append(client.num_in_flight)
            sounds.append(sound)
        return lengths, waiting, sounds

    lengths, waiting, sounds = in_one_process(scene, models)
    assert lengths == [11, 11, 11, 11, 9]
    assert max(waiting) <= 2
    assert [len(sound.samples) for sound in sounds] == [100 * length for length in lengths]


def test_a_call_that_is_closed_sends_no_more(models, monkeypatch):
    monkeypatch.setattr(phonemes, "MAX_PHONEMES", 4)

    async def scene(client, catalogue):
        call, sounds = catalogue.get("tiny").open(SpeakInput("aaa bbb ccc ddd eee"), client), []
        async for sound in call.parts():
            sounds.append(sound)
            call.close()
        return len(sounds), client.num_in_flight

    assert in_one_process(scene, models) == (1, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [("\n \x00", "has nothing that is spoken"), ("ab " * 6000, "longer than 16384 phonemes")],
)
def test_texts_that_are_refused(models, text, message):
    async def scene(client, catalogue):
        with pytest.raises(RequestError, match=message):
            await spoken(client, catalogue, text)

    in_one_process(scene, models)


def test_the_speaker_is_a_number(tmp_path):
    folder = tmp_path / "models"
    write_voice(folder / "tiny", SPEAKERS, num_speakers=3, speaker_id_map={"ann": 0, "bob": 2})
    write_onnx(folder / "other" / "tiny.onnx", SPEAKERS)
    assert "type: tensor_model, from: batch, path: tiny.onnx" in new_graph(folder / "tiny")

    async def scene(client, catalogue):
        return await spoken(client, catalogue, "a", voice="bob")

    (sound,), _, _ = in_one_process(scene, folder)
    assert sound.samples.tolist() == [32_767]


def test_several_voices_in_a_folder_are_refused(tmp_path):
    write_voice(tmp_path)
    for suffix in ("", ".json"):
        (tmp_path / f"b.onnx{suffix}").write_bytes((tmp_path / f"tiny.onnx{suffix}").read_bytes())
    with pytest.raises(
        ValueError, match=r"several voices: b.onnx.json, tiny.onnx.json; put each into a folder"
    ):
        new_graph(tmp_path)


def test_check_says_what_to_install(tmp_path, monkeypatch):
    write_voice(tmp_path / "tiny", phoneme_type="espeak")
    monkeypatch.delenv(espeak.LIBRARY, raising=False)
    monkeypatch.setattr(espeak.ctypes.util, "find_library", lambda name: None)
    (finding,) = inspect(tmp_path)
    (problem,) = finding.problems
    assert problem.startswith("tiny/graph.yaml:5: `settings`: this voice needs espeak-ng for its phonemes")
    assert "apt install espeak-ng" in problem
