"""Images under /v3: OpenVINO Model Server's rules of parts, and its texts for errors of images."""

from __future__ import annotations

import base64
import json

import pytest

pytest.importorskip("PIL", reason="needs the extra vision")

from pipelines.base.errors import RequestError
from pipelines.nodes.images.data_urls import read_data_url
from pipelines.nodes.images.decoding import ImageLimits, decode_image
from pipelines.requests.generation.chat import ChatRequest
from pipelines.values.tasks import ImageInput
from pipelines.worker.request_checks import refuse_media
from server.dialects import OVMS
from server.dialects.ovms_images import translate_error
from server.media.sources import MediaSources

PIECE = {"type": "text", "text": "hi"}
TEXT_ONLY = "This servable supports only text input, but image_url has been provided"
PART = "Invalid message structure - "


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        (["hi"], "content array should contain objects"),
        ([PIECE, {"text": "hi"}], "content object type missing"),
        ([{"type": "text"}], "content text missing"),
        ([{"type": "image_url"}], "content image_url missing"),
        ([{"type": "image_url", "image_url": None}], "content image_url missing"),
        ([{"type": "image_url", "image_url": {}}], "image_url does not have url field"),
        ([{"type": "image_url", "image_url": {"url": None}}], "image_url does not have url field"),
        ([{"type": "image_url", "image_url": 5}], "image_url does not have url field"),
    ],
)
def test_parts_that_are_not_whole_are_refused_in_its_words(rig, parts, fault):
    answer = rig.post(
        "/v3/chat/completions", {"model": "tiny", "messages": [{"role": "user", "content": parts}]}
    )
    assert (answer.status, answer.json) == (400, {"error": PART + fault})


def test_parts_that_are_whole_reach_the_model_which_takes_text_only(rig):
    named = {"type": "image_url", "image_url": None, "uuid": "it"}
    shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [{"role": "user", "content": [PIECE, named, shown, {**shown, "image_url": "data:,x"}]}]
    answer = rig.post("/v3/chat/completions", {"model": "tiny", "messages": messages})
    assert (answer.status, answer.json) == (400, {"error": TEXT_ONLY})


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ({}, "input_image requires image_url field"),
        ({"image_url": None}, "input_image requires image_url field"),
        ({"image_url": 5}, "input_image.image_url must be a string or object"),
        ({"image_url": {"url": "data:image/png;base64,AAAA"}}, TEXT_ONLY),
        ({"image_url": "data:image/png;base64,AAAA"}, TEXT_ONLY),
    ],
)
def test_images_of_responses_are_refused_in_its_words(part, fault, rig):
    content = [{"type": "input_text", "text": "hi"}, {"type": "input_image", **part}]
    answer = rig.post("/v3/responses", {"model": "tiny", "input": [{"role": "user", "content": content}]})
    assert (answer.status, answer.json) == (400, {"error": fault})


def of_data(text):
    return lambda: read_data_url(text, 1000, "x")


NO_HOST = "Given url does not match any allowed domain from allowed_media_domains"
WORDS = [
    (
        lambda: refuse_media("tiny", ImageInput("data:,x", "image_url", "x")),
        TEXT_ONLY,
    ),
    (of_data("data:image/png;base64,a*b="), "Invalid base64 string in request"),
    (of_data("data:image/png,abc"), "Invalid base64 string in request"),
    (lambda: decode_image(b"no image", ImageLimits(100, 100), "x"), "Image parsing failed"),
    (
        lambda: decode_image(base64.b64decode(GIF)[:20], ImageLimits(100, 100), "x"),
        "Image parsing failed",
    ),
    (lambda: MediaSources().place("http://a.example/", "x"), NO_HOST),
    (lambda: MediaSources(("b.example",)).place("http://a.example/", "x"), NO_HOST),
    (
        lambda: MediaSources().read_file("file:///a", 100, "x"),
        "Loading images from local filesystem is disabled.",
    ),
]
GIF = "R0lGODdhAQABAIEAAAAAAAAAAAAAAAAAACwAAAAAAQABAAAIBAABBAQAOw=="


@pytest.mark.parametrize(("fail", "words"), WORDS)
def test_errors_of_images_have_its_words(fail, words):
    with pytest.raises(RequestError) as ours:
        fail()
    assert translate_error(ours.value).message == words


def test_a_file_outside_of_the_folder_and_other_errors(tmp_path):
    with pytest.raises(RequestError) as ours:
        MediaSources(folder=tmp_path).read_file("file:///etc/passwd", 100, "x")
    outside = "Given filepath is not subpath of allowed_local_media_path"
    assert translate_error(ours.value).message == outside
    other = RequestError("anything else", "x")
    assert translate_error(other) is other


QUESTION = {"type": "text", "text": "Describe what is on the picture."}
ZEBRA = "http://raw.githubusercontent.com/a/zebra.jpeg"


@pytest.mark.parametrize(
    "content",
    [
        [QUESTION, {"type": "image_url", "image_url": {"url": ZEBRA}}],
        [QUESTION, {"type": "image_url", "image_url": ZEBRA}],
        [{"type": "image_url", "image_url": {"url": ZEBRA, "detail": "low"}}, QUESTION],
    ],
)
def test_bodies_of_its_examples_show_their_images(content):
    body = {
        "model": "OpenVINO/InternVL2-2B-int4-ov",
        "messages": [{"role": "user", "content": content}],
        "max_completion_tokens": 100,
        "stream": False,
    }
    request = ChatRequest.model_validate_json(OVMS.transform_body("chat", json.dumps(body).encode()))
    assert [(each.url, each.kind) for each in request.generation(1000).images] == [(ZEBRA, "image_url")]
