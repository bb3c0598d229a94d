"""Images in requests: their names (`uuid`, FastDeploy's `mm_hashes`), and what is refused beside them."""

from __future__ import annotations

import pytest

from pipelines.base.errors import RequestError
from pipelines.requests.generation.chat import ChatRequest

URL = {"url": "data:,x"}


def images(*parts, **fields):
    body = {"messages": [{"role": "user", "content": list(parts)}], **fields}
    request = ChatRequest.model_validate(body)
    found = request.images
    assert request.generation(100).images == found
    return [(each.url, each.uuid) for each in found]


def part(**fields):
    return {"type": "image_url", **fields}


@pytest.mark.parametrize("image", [{}, {"image_url": None}, {"image_url": {}}, {"image_url": {"url": None}}])
def test_a_name_stands_for_an_image_that_is_not_there(image):
    assert images(part(**image, uuid="it")) == [(None, "it")]
    assert images(part(**image), mm_hashes=["it"]) == [(None, "it")]
    with pytest.raises(RequestError, match="or the `uuid` of an image that was sent before") as refused:
        images(part(**image))
    assert refused.value.field == "messages.0.content.0.image_url"


def test_fast_deploy_s_names_go_before_those_of_parts():
    shown = part(image_url=URL, uuid="a"), part(image_url="data:,y")
    assert images(*shown) == [("data:,x", "a"), ("data:,y", None)]
    assert images(*shown, mm_hashes=[]) == [("data:,x", "a"), ("data:,y", None)]
    assert images(*shown, mm_hashes=[None, "c"]) == [("data:,x", "a"), ("data:,y", "c")]
    assert images(*shown, mm_hashes=["b", "c"]) == [("data:,x", "b"), ("data:,y", "c")]
    with pytest.raises(
        RequestError, match="`mm_hashes` has 1 names, and the request has 2 images"
    ) as refused:
        images(*shown, mm_hashes=["b"])
    assert refused.value.field == "mm_hashes"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"disable_chat_template": True}, "have their places by the chat template"),
        ({"prompt_token_ids": [1, 2]}, "have their places by the chat template"),
        ({"mm_processor_kwargs": {"max_pixels": 9}}, "as the model's own settings say"),
        ({"media_io_kwargs": {"image": {"rgba_background_color": [0, 0, 0]}}}, "own settings say"),
    ],
)
def test_fields_that_would_change_images_are_refused_beside_them(fields, words):
    (name,) = fields
    with pytest.raises(RequestError, match=words) as refused:
        images(part(image_url=URL), **fields)
    assert refused.value.field == name
    assert not images("text", **fields)
    assert images(part(image_url=URL), **dict.fromkeys(fields)) == [("data:,x", None)]


@pytest.mark.parametrize("kind", ["video_url", "image_embeds", "file"])
def test_other_media_are_refused_with_what_is_allowed(kind):
    with pytest.raises(RequestError, match="refused; allowed: text, .*a vision model image_url") as refused:
        images(part(image_url=URL), {"type": kind, kind: {"url": "data:,x"}})
    assert refused.value.field == "messages.0.content.1"
    assert f"`{kind}` parts" in refused.value.message
