"""Replies that are spoken while they are written: a scripted model writes, a small voice speaks, in one process."""

import numpy as np
import pytest
from composed_models import chat, scenes
from fake_decoder import write_fake_model
from patience import until
from scripted_model import write_scripted_model
from test_composed_call import blocks_used
from voice_models import RATE, write_voice

from pipelines.base.errors import RequestError
from pipelines.telemetry import deferred, registry
from pipelines.telemetry.metric_names import SPOKEN_SECONDS
from pipelines.values.tasks import SpeakInput, SpokenForm

TEXT = "Well, hello there. ... How are you? **Fine**"
PARTS = ["Well, hello there.", " ... How are you?", " **Fine**"]
PLAIN = ["Well, hello there.", "... How are you?", "Fine"]
SPOKEN = "version: 1\ntask: chat\nnodes:\n"
GRAPHS = {
    "speaker": """\
  answer: {type: graph, graph: writer, from: request}
  reply: {type: speak, graph: voice, from: answer, speed: 2}
""",
    "asked": """\
  answer: {type: ask, graph: writer, template: "{{ request }}", max_tokens: 3}
  reply: {type: speak, graph: voice, from: answer}
""",
    "endless": """\
  answer: {type: graph, graph: tiny, from: request}
  reply: {type: speak, graph: voice, from: answer, longest: 40}
""",
    "alias": "  reply: {type: graph, graph: speaker, from: request}\n",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spoken")
    write_scripted_model(folder / "writer", [TEXT] * 4)
    write_fake_model(folder / "tiny")
    (folder / "voice").mkdir()
    write_voice(folder / "voice")
    for name, lines in GRAPHS.items():
        write_fake_model(folder / name, f"{SPOKEN}{lines}")
    with scenes(folder) as run_scene:
        yield run_scene


async def updates(pipeline, request, client):
    """The updates of a call, and the call."""
    call = pipeline.open(request, client)
    try:
        return [update async for batch in call.updates() for _, update in batch], call
    finally:
        call.close()


async def sound_of(catalogue, client, text, speed):
    """What the voice alone says."""
    call = catalogue.get("voice").open(SpeakInput(text, None, speed), client)
    return np.concatenate([sound.samples async for sound in call.parts()])


def test_each_sentence_is_spoken_as_the_voice_alone_does(run):
    async def scene(catalogue, client):
        request = chat("Hi", spoken=SpokenForm(speed=0.5))
        deferred.catch_up()
        counted_s = registry.labelled(SPOKEN_SECONDS, "voice")._value.get()
        updates_of, call = await updates(catalogue.get("speaker"), request, client)
        deferred.catch_up()
        made_s = registry.labelled(SPOKEN_SECONDS, "voice")._value.get() - counted_s
        assert "".join(update.content for update in updates_of) == TEXT
        spoken = [part for update in updates_of for part in update.spoken]
        assert [part.text for part in spoken] == PARTS
        for part, plain in zip(spoken, PLAIN, strict=True):
            assert part.sound.rate == RATE
            assert np.array_equal(part.sound.samples, await sound_of(catalogue, client, plain, 1.0))
        assert [update.piece.finish for update in updates_of] == [None] * (len(updates_of) - 1) + ["stop"]
        kinds = "".join(
            "s" if update.spoken else "t" for update in updates_of if update.spoken or update.content
        )
        assert kinds.startswith("t"), kinds
        _, plain_call = await updates(catalogue.get("writer"), chat("Hi"), client)
        assert call.others.num_prompt == sum(plain_call.prompt_lengths)  # phonemes are no tokens
        assert made_s == pytest.approx(sum(len(part.sound.samples) for part in spoken) / RATE)

    run(scene)


def test_without_the_wish_nothing_is_spoken(run):
    async def scene(catalogue, client):
        found, call = await updates(catalogue.get("speaker"), chat("Hi"), client)
        assert "".join(update.content for update in found) == TEXT
        assert [asked.model for asked in call.asked] == ["writer"]
        found, _ = await updates(catalogue.get("alias"), chat("Hi", spoken=SpokenForm()), client)
        assert not any(update.spoken for update in found)  # only a graph's own last line speaks

    run(scene)


def test_what_the_client_sets_holds_for_the_line_that_answers(run):
    async def scene(catalogue, client):
        whole, _ = await updates(catalogue.get("asked"), chat("Hi", sampling={"max_tokens": 90}), client)
        assert "".join(update.content for update in whole) == TEXT
        cut, _ = await updates(catalogue.get("asked"), chat("Hi", spoken=SpokenForm()), client)
        assert sum(update.piece.num_tokens for update in cut) == 3
        assert cut[-1].piece.finish == "length"
        assert catalogue.get("asked").max_context == catalogue.get("writer").max_context

    run(scene)


def test_a_voice_that_is_not_there_is_refused(run):
    async def scene(catalogue, client):
        request = chat("Hi", spoken=SpokenForm("nobody"))
        with pytest.raises(RequestError, match="line `reply`: Requested voice 'nobody' not found"):
            await updates(catalogue.get("speaker"), request, client)

    run(scene)


def test_a_reader_that_stops_holds_a_few_sentences_and_closing_frees_them(run):
    async def scene(catalogue, client):
        sampling = {"max_tokens": 2000, "temperature": 0.0, "ignore_eos": True}
        call = catalogue.get("endless").open(chat("Hi", spoken=SpokenForm(), sampling=sampling), client)
        stream = call.updates()
        async for batch in stream:
            if any(update.spoken for _, update in batch):
                break
        await until(lambda: call.asked[-1].to_s > 0)
        assert len(call.asked) < 12
        call.close()
        await until(lambda: blocks_used(client, "tiny") == 0)
        await stream.aclose()

    run(scene)
