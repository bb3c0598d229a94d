"""An audio model, exported and served: conversations with sounds, from HTTP's fields to tokens, equal
those of transformers' model on the same weights; prompts are those of mistral-common.
"""

from __future__ import annotations

import asyncio
import base64
import shutil
from dataclasses import replace

import pytest
from later import missing

if missing("optimum.exporters.openvino"):
    pytest.skip("needs the extra optimum", allow_module_level=True)
pytest.importorskip("av", reason="needs the extra audio")

import tiny_voxtral
from call_outcomes import outcome
from patience import PATIENCE_S
from served_models import in_one_process
from tiny_voxtral import sound, wav

from pipelines.base.errors import RequestError
from pipelines.repository.new_graph import new_graph
from pipelines.requests.generation.chat import ChatRequest
from pipelines.worker import encoding
from server.apis.responses.input_items import read_items
from server.apis.responses.request import ResponseRequest
from server.apis.responses.translate import ChatTranslation

pytestmark = pytest.mark.breadth

NUM_TOKENS = 12
SHORT, LONG = (1, 1.5), (2, 3.2)
EXACT = "device: cpu, precision: f32"


def part(seed, seconds):
    data = base64.b64encode(wav(sound(seed, seconds))).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def linked(seed, seconds):
    data = base64.b64encode(wav(sound(seed, seconds))).decode()
    return {"type": "audio_url", "audio_url": {"url": f"data:audio/wav;base64,{data}"}}


def user(*parts):
    return {
        "role": "user",
        "content": [{"type": "text", "text": each} if isinstance(each, str) else each for each in parts],
    }


HEARD = [24] * 25
CONVERSATIONS = [
    ([user("hello")], [], [1, 3, 299, 4]),
    ([user("hello what", part(*SHORT))], [SHORT], [1, 3, 299, 300, 144, 301, 25, *HEARD, 4]),
    (
        [user(linked(*SHORT), part(*LONG), "this is")],
        [SHORT, LONG],
        [1, 3, 25, *HEARD, 25, *HEARD, *HEARD, 306, 302, 4],
    ),
    (
        [user("hello", "hello", part(*LONG), "x", "y")],
        [LONG],
        [1, 3, 299, 303, 299, 25, *HEARD, *HEARD, 160, 303, 161, 4],
    ),
]
"""Messages, their sounds, and the ids that mistral-common 1.9 gives for the messages and tiny_voxtral's vocabulary."""


@pytest.fixture(scope="module")
def served(voxtral, tmp_path_factory):
    """(Hugging Face's folder, a folder with the served model), whose steps are shorter than its prompts."""
    source, export = voxtral
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(export, folder / "voxtral")
    text = new_graph(folder / "voxtral").replace("device: cpu", EXACT)
    text = text.replace("language_model.xml, " + EXACT, f"language_model.xml, {EXACT}, kv_cache: f32")
    text = text.replace("max_step_tokens: 1024", "max_step_tokens: 40").replace(
        "max_sequences: 64", "max_sequences: 8"
    )
    (folder / "voxtral" / "graph.yaml").write_text(text)
    return source, folder


def input_of(pipeline, messages):
    body = {"messages": messages, "max_tokens": NUM_TOKENS, "temperature": 0, "ignore_eos": True}
    return ChatRequest.model_validate(body).generation(pipeline.max_context)


def of_responses(pipeline, *parts):
    """The input of a request with one message, as Responses have it."""
    sent = [{"type": "input_text", "text": each} if isinstance(each, str) else each for each in parts]
    items = read_items([{"role": "user", "content": sent}], lambda *_: {})
    body = {"model": "voxtral", "input": items, "temperature": 0, "max_output_tokens": NUM_TOKENS}
    generation = ChatTranslation(ResponseRequest.model_validate(body), [], items).generation(
        pipeline.max_context
    )
    return replace(generation, sampling=generation.sampling | {"ignore_eos": True})


async def answer(client, pipeline, messages):
    """(tokens of the prompt as its usage counts them, tokens of the reply, prompt tokens found again)."""
    return await outcome(client, pipeline, input_of(pipeline, messages))


def test_conversations_with_sounds_equal_transformers(served):
    source, models = served

    async def scene(client, catalogue):
        pipeline = catalogue.get("voxtral")
        together = asyncio.gather(*(answer(client, pipeline, messages) for messages, *_ in CONVERSATIONS))
        answers = await asyncio.wait_for(together, PATIENCE_S)
        again = await answer(client, pipeline, CONVERSATIONS[2][0])
        other = await answer(client, pipeline, [user(linked(3, 1.5), part(*LONG), "this is")])
        responded = await outcome(client, pipeline, of_responses(pipeline, "hello what", part(*SHORT)))
        counted = [
            encoding.chat_ids(pipeline, input_of(pipeline, conversation))
            for conversation, *_ in CONVERSATIONS
        ]
        typed = encoding.chat_ids(pipeline, input_of(pipeline, [user("[AUDIO]", part(*SHORT))]))
        refused = []
        for parts in REFUSED:
            with pytest.raises(RequestError) as error:
                pipeline.prepare(input_of(pipeline, [user(*parts)]), client)
            refused.append((error.value.message, error.value.field))
        return answers, again, other, responded, counted, typed, refused, client.num_in_flight

    answers, again, other, responded, counted, typed, refused, in_flight = in_one_process(scene, models)
    wanted = [
        tiny_voxtral.generate_alone(source, ids, [sound(*clip) for clip in sounds], NUM_TOKENS)
        for _, sounds, ids in CONVERSATIONS
    ]
    assert counted == [ids for *_, ids in CONVERSATIONS]
    assert [(lengths, tokens) for lengths, tokens, _ in answers] == [
        ([len(ids)], tokens) for ids, tokens in zip(counted, wanted, strict=True)
    ]
    assert all(len(set(tokens)) > 4 for tokens in wanted)
    assert responded[:2] == answers[1][:2]
    assert again[1] == wanted[2]
    assert again[2] >= 64
    assert other[2] < 16  # the same ids, of another sound
    assert other[1] != wanted[2]
    assert typed.count(tiny_voxtral.AUDIO_ID) == 25
    assert in_flight == 0
    assert refused == SAID


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}
JUNK = {"type": "input_audio", "input_audio": {"data": "aGVsbG8=", "format": "mp3"}}
REFUSED = [[part(*SHORT)] * 9, [JUNK], [PICTURE]]
SAID = [
    ("At most 8 audio(s) may be provided in one request.", "messages.0.content.8"),
    ("`messages.0.content.0`: Invalid or unsupported audio file.", "messages.0.content.0"),
    (
        "`messages.0.content.0`: voxtral takes text and sounds only, so `image_url` parts are refused",
        "messages.0.content.0",
    ),
]
