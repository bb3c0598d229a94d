"""Sounds in the messages of a request: OpenAI's `input_audio` and vLLM's `audio_url`."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pipelines.base.errors import RequestError
from pipelines.nodes.request_plan import RequestPlan
from pipelines.requests.generation.chat import ChatRequest
from pipelines.values.tasks import SoundInput
from pipelines.worker.request_checks import check_handled

FILE = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
LINK = {"type": "audio_url", "audio_url": {"url": "https://example.com/a.mp3"}, "uuid": "a"}
PICTURE = {"type": "image_url", "image_url": "data:image/png;base64,aGVsbG8="}


def chat(*parts):
    return ChatRequest.model_validate({"messages": [{"role": "user", "content": list(parts)}]})


def test_sounds_and_images_are_in_the_order_of_their_parts():
    request = chat(FILE, {"type": "text", "text": "hi"}, PICTURE, LINK, {**LINK, "audio_url": "data:,x"})
    generation = request.generation(100)
    assert generation.sounds == [
        SoundInput("data:;base64,UklGRg==", "input_audio", "messages.0.content.0"),
        SoundInput("https://example.com/a.mp3", "audio_url", "messages.0.content.3"),
        SoundInput("data:,x", "audio_url", "messages.0.content.4"),
    ]
    assert [image.where for image in generation.images] == ["messages.0.content.2"]
    assert request.sounds == generation.sounds
    assert request.shows_images
    assert [part["type"] for part in generation.messages[0]["content"]] == [
        *("audio", "text", "image", "audio", "audio")
    ]


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"type": "input_audio"}, "messages.0.content.0.input_audio"),
        ({"type": "input_audio", "input_audio": None}, "messages.0.content.0.input_audio"),
        ({"type": "audio_url", "input_audio": FILE["input_audio"]}, "messages.0.content.0.audio_url"),
        ({"type": "audio_url", "audio_url": {}}, "messages.0.content.0.audio_url.url"),
        ({**FILE, "input_audio": {"format": "wav"}}, "messages.0.content.0.input_audio.data"),
    ],
)
def test_a_part_needs_its_own_field(part, field):
    with pytest.raises(RequestError, match="is required") as refused:
        chat(part).generation(100)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "part",
    [
        {**FILE, "input_audio": {"data": 3, "format": "wav"}},
        {**FILE, "input_audio": "UklGRg=="},
        {**LINK, "audio_url": [1]},
    ],
)
def test_fields_of_other_types_are_refused(part):
    with pytest.raises(ValidationError):
        chat(part)


@pytest.mark.parametrize(
    ("handled", "words"),
    [
        ((), "tiny is not a multimodal model: it takes text only, so `input_audio`"),
        (("images",), "tiny takes text and images only, so `input_audio`"),
    ],
)
def test_a_model_that_does_not_hear_refuses_them_by_name(handled, words):
    with pytest.raises(RequestError, match=words) as refused:
        check_handled("tiny", chat(FILE).generation(100), RequestPlan(handled=frozenset(handled)))
    assert refused.value.field == "messages.0.content.0"


def test_a_prompt_without_the_chat_template_has_no_sounds():
    body = {"messages": [{"role": "user", "content": [FILE]}], "disable_chat_template": True}
    with pytest.raises(RequestError, match="`disable_chat_template`: images and sounds have their places"):
        ChatRequest.model_validate(body).generation(100)
