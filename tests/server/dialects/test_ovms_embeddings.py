"""POST /v3/embeddings in OpenVINO Model Server's words."""

from __future__ import annotations

import pytest
from pooled_calls import PooledPipeline

from pipelines.base.errors import RequestError

PATHS = ["/v3/embeddings", "/v3/v1/embeddings"]


@pytest.fixture
def rig(make_rig):
    return make_rig(PooledPipeline())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("given", ["a", ["a", "b"], [1, 2], [[1, 2], [3]]], ids=str)
def test_its_forms_are_read(path, given, rig):
    reply = rig.post(path, {"model": "tiny", "input": given}).json
    assert [each["object"] for each in reply["data"]] == ["embedding"] * len(reply["data"])
    assert reply["usage"]["prompt_tokens"] == reply["usage"]["total_tokens"] > 0


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": "a"}]},
        {"input": [[{"role": "user", "content": "a"}]]},
        {"input": "a", "encoding_format": "bytes"},
    ],
    ids=str,
)
def test_what_braid_can_do_beyond_is_not_refused_in_its_words(body, rig):
    assert rig.post(PATHS[0], {"model": "tiny", **body}).status == 200


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "input field is required"),
        ({"input": None}, "input should be string, array of strings or array of integers"),
        ({"input": 5}, "input should be string, array of strings or array of integers"),
        ({"input": {}}, "input should be string, array of strings or array of integers"),
        ({"input": []}, "input array should not be empty"),
        ({"input": [[1], []]}, "inner arrays in input should not be empty"),
        ({"input": ["a", 1]}, "input must be homogeneous"),
        ({"input": [None]}, "every element in input array should be either string or int"),
        ({"input": [True]}, "every element in input array should be either string or int"),
        ({"input": [1.5]}, "every element in input array should be either string or int"),
        ({"input": [["a"]]}, "input must be either array of strings or array of array of integers"),
        ({"input": [[1, "a"]]}, "input must be either array of strings or array of array of integers"),
        ({"input": "a", "encoding_format": 5}, "encoding_format should be string"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format should either base64 or float"),
    ],
    ids=str,
)
def test_its_words_for_wrong_bodies(body, words, rig):
    answer = rig.post(PATHS[0], {"model": "tiny", **body})
    assert (answer.status, answer.json) == (400, {"error": words})


def test_a_body_without_a_model_is_a_412(rig):
    answer = rig.post(PATHS[0], {"input": "a"})
    assert (answer.status, answer.error) == (
        412,
        "The file is not valid json - model field is missing in JSON body",
    )


@pytest.mark.parametrize("number", ["600", "at least 600"])
def test_a_text_that_is_too_long_is_told_in_its_words(number, rig):
    rig.pipeline.value = RequestError(
        f"This model's maximum context length is 512 tokens. However, your prompt contains {number} input "
        "tokens, which exceeds this limit even without any output tokens. Please reduce the length of the "
        "input prompt.",
        "input_tokens",
    )
    body = {"model": "tiny", "input": "a"}
    assert rig.post(PATHS[0], body).error == "Input length 600 longer than allowed 512"
    assert "maximum context length is 512" in rig.post("/v1/embeddings", body).error["message"]


def test_another_refusal_is_told_as_it_is(rig):
    rig.pipeline.value = RequestError("Token id 9 is out of vocabulary", "input")
    assert rig.post(PATHS[0], {"model": "tiny", "input": "a"}).error == "Token id 9 is out of vocabulary"
