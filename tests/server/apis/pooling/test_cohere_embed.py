"""POST v2/embed and v1/embed: what Cohere's clients send and read."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from one_test import in_one_test
from pooled_calls import SIZE, PooledPipeline, rows

from pipelines.nodes.text.templates.chat_template import ChatTemplate
from pipelines.requests.pooling.cohere import ONE_OF
from pipelines.values.node_values import PooledOutputs, Prompt
from server.apis.pooling.replies.cohere import TYPES, EmbedByTypeReply, EmbedFloatsReply

PATHS = ["/v1/embed", "/v2/embed"]
ROWS = PooledOutputs(np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8))


def written(name, rows):
    return json.loads(msgspec.json.encode(TYPES[name](rows)))


@pytest.fixture
def rig(make_rig):
    return make_rig(PooledPipeline("embed"))


@pytest.fixture
def embed(rig):
    return lambda path="/v2/embed", **fields: rig.post(path, {"model": "tiny", **fields})


def test_the_reply_of_v2(embed):
    answer = embed(texts=["hello", "bye"], request_id="mine")
    assert answer.json == {
        "id": "embd-mine",
        "response_type": "embeddings_by_type",
        "embeddings": {"float": rows(2).values.tolist()},
        "texts": ["hello", "bye"],
        "meta": {
            "api_version": {"version": "2"},
            "billed_units": {"input_tokens": 8, "image_tokens": 0},
            "tokens": {"input_tokens": 8},
        },
    }
    EmbedByTypeReply.model_validate(answer.json)


def test_v1_without_types_is_the_older_reply(embed):
    reply = embed("/v1/embed", texts=["hello", "bye"]).json
    assert reply["response_type"] == "embeddings_floats"
    assert reply["embeddings"] == rows(2).values.tolist()
    assert (reply["texts"], reply["meta"]["api_version"]) == (["hello", "bye"], {"version": "1"})
    EmbedFloatsReply.model_validate(reply)
    by_type = embed("/v1/embed", texts=["hello"], embedding_types=["base64"]).json
    assert by_type["response_type"] == "embeddings_by_type"
    assert by_type["meta"]["api_version"] == {"version": "1"}


def test_every_type_that_is_asked_for_and_no_other(embed, rig):
    rig.pipeline.value = ROWS
    got = embed(texts=["a", "b"], embedding_types=list(TYPES)).json["embeddings"]
    EmbedByTypeReply.model_validate(embed(texts=["a", "b"], embedding_types=list(TYPES)).json)
    assert list(got) == list(TYPES)
    values = ROWS.values
    assert np.array_equal(np.float32(got["float"]), values)
    assert got["int8"] == np.round(values * 127).astype(int).tolist()
    assert got["uint8"] == (np.array(got["int8"]) + 128).tolist()
    assert got["ubinary"] == [[0], [255]]
    assert got["binary"] == [[-128], [127]]
    assert all(
        base64.b64decode(text) == row.tobytes() for text, row in zip(got["base64"], values, strict=True)
    )
    assert list(embed(texts=["a"], embedding_types=["int8", "int8"]).json["embeddings"]) == ["int8"]


def test_the_first_number_is_the_highest_bit():
    row = np.array([[0, -1, -1, -1, -1, -1, -1, 0.5]], np.float32)
    assert written("ubinary", row) == [[0b10000001]]


def test_numbers_beyond_one_are_clipped():
    row = np.array([[5, -5, 1, -1]], np.float32)
    assert written("int8", row) == [[127, -128, 127, -127]]
    assert written("uint8", row) == [[255, 0, 255, 1]]


def test_bits_need_bytes_to_fill(embed):
    answer = embed(texts=["a"], embedding_types=["float", "binary"])
    assert answer.status == 400
    assert (answer.error["param"], "multiple of 8" in answer.error["message"]) == (
        "embedding_types",
        SIZE % 8 > 0,
    )


def test_what_the_model_is_asked(embed, rig):
    embed(texts=["hello"], input_type="search_query", output_dimension=16, priority=3, max_tokens=7)
    asked = rig.pipeline.asked
    assert asked.prompts == [Prompt(text="hello", add_special_tokens=True)]
    assert (asked.purpose, asked.dimensions, asked.priority) == ("search_query", 16, 3)
    assert (asked.truncate_prompt_tokens, asked.truncate_left) == (7, False)


@pytest.mark.parametrize(
    ("fields", "kept", "left"),
    [
        ({}, -1, False),
        ({"truncate": None}, -1, False),
        ({"truncate": "END"}, -1, False),
        ({"truncate": "START"}, -1, True),
        ({"truncate": "START", "max_tokens": 5}, 5, True),
        ({"truncate": "NONE"}, None, False),
        ({"truncate": "NONE", "max_tokens": 4096}, None, False),
        ({"max_tokens": 4096}, -1, False),
        ({"max_tokens": 512}, -1, False),
        ({"max_tokens": 511}, 511, False),
    ],
    ids=str,
)
def test_what_is_cut(embed, rig, fields, kept, left):
    assert embed(texts=["a"], **fields).status == 200
    assert (rig.pipeline.asked.truncate_prompt_tokens, rig.pipeline.asked.truncate_left) == (kept, left)


def test_a_model_without_a_bound_is_cut_as_asked(make_rig):
    rig = make_rig(PooledPipeline(max_context=0))
    for max_tokens, kept in ((7, 7), (None, -1)):
        assert rig.post("/v2/embed", {"texts": ["a"], "max_tokens": max_tokens}).status == 200
        assert rig.pipeline.asked.truncate_prompt_tokens == kept


INPUTS = [{"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]


def test_inputs_without_a_template_are_texts(embed, rig):
    answer = embed(inputs=INPUTS)
    assert "texts" not in answer.json
    assert [prompt.text for prompt in rig.pipeline.asked.prompts] == ["a\nb"]


def test_inputs_are_conversations_where_there_is_a_template(embed, rig):
    node = object.__new__(ChatTemplate)
    node.template = SimpleNamespace(source="{{ messages }}")
    rig.pipeline.lines = [SimpleNamespace(node=node)]
    assert embed(inputs=INPUTS).status == 200
    assert rig.pipeline.asked.conversations == [[{"role": "user", "content": INPUTS[0]["content"]}]]
    assert not rig.pipeline.asked.add_generation_prompt
    assert embed(texts=["a"]).status == 200
    assert rig.pipeline.asked.conversations == []


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@in_one_test("path", PATHS)
@in_one_test(
    "fields, text",
    [
        ({}, ONE_OF),
        ({"texts": []}, ONE_OF),
        ({"texts": None, "inputs": []}, ONE_OF),
        ({"texts": ["a"], "inputs": INPUTS}, ONE_OF),
        (
            {"images": ["data:image/png;base64,AAAA"]},
            "`images.0`: tiny is not a multimodal model: it takes text only, so `image` parts are refused",
        ),
        ({"inputs": [{"content": [IMAGE]}]}, "takes text only"),
        ({"inputs": [{}]}, "`inputs.0` must hold"),
        ({"inputs": [{"contents": []}]}, "`inputs.0` must hold"),
        ({"inputs": ["a"]}, "inputs.0"),
        ({"texts": "a"}, "`texts` must be a list"),
        ({"texts": [1]}, "texts.0"),
        ({"texts": ["a"], "embedding_types": ["int3"]}, "embedding_types.0"),
        ({"texts": ["a"], "truncate": "MIDDLE"}, "'NONE', 'START' or 'END'"),
        ({"texts": ["a"], "truncate": "NONE", "max_tokens": 5}, "`max_tokens` truncates texts"),
        ({"texts": ["a"], "max_tokens": 0}, "max_tokens must be at least 1"),
        ({"texts": ["a"], "truncate_prompt_tokens": 5}, "use `max_tokens`"),
        ({"texts": ["a"], "truncation_side": "left"}, "use `truncate`"),
    ],
)
def test_what_cannot_be_embedded_is_refused_as_cohere_reads_it(embed, path, fields, text):
    answer = embed(path, **fields)
    assert answer.status == 400
    assert text in answer.json["message"]
    assert answer.json["message"] == answer.error["message"]


def test_null_fields_are_not_set(embed):
    names = (
        "input_type",
        "embedding_types",
        "output_dimension",
        "truncate",
        "max_tokens",
        "images",
        "inputs",
    )
    assert embed(texts=["a"], **dict.fromkeys(names)).status == 200


def test_more_texts_than_cohere_takes(embed):
    assert len(embed(texts=["a"] * 97).json["embeddings"]["float"]) == 97


def test_a_model_of_another_task_is_not_asked(make_rig):
    answer = make_rig(PooledPipeline("rerank")).post("/v2/embed", {"model": "tiny", "texts": ["a"]})
    assert answer.status == 404
    assert "does not give embeddings" in answer.json["message"]
