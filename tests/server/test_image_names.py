"""Names of images in requests: a part's `uuid`, FastDeploy's `mm_hashes`, and images with a name alone."""

from __future__ import annotations

import pytest

from pipelines.errors import RequestError
from server.generation.requests.chat import ChatRequest

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
