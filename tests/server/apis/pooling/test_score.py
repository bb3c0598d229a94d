"""POST score: which sides may be compared, what the model is asked, what comes back."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from one_test import in_one_test
from pooled_calls import PooledPipeline, rows, scores, token_rows

from pipelines.nodes.pooling.similarity import cosines, max_sim, similarities
from pipelines.nodes.text.tokenizing.text_reader import TextReader
from pipelines.nodes.text.tokenizing.tokenize import Tokenize
from pipelines.requests.pooling.input_parsing import MAX_TEXTS
from pipelines.values.node_values import PooledOutputs, Prompt
from server.apis.pooling.replies.ranking import ScoreList
from server.services.paths import PREFIXES

PATHS = ["/score", *(prefix + "/score" for prefix in PREFIXES)]


@pytest.fixture
def cross(make_rig):
    return make_rig(PooledPipeline("rerank"))


@pytest.fixture
def vectors(make_rig):
    return make_rig(PooledPipeline("embed"))


def score(rig, path="/score", **fields):
    return rig.post(path, {"model": "tiny", **fields})


def refused(answer):
    assert answer.status == 400, answer.body
    return answer.error["message"]


def test_the_reply_has_vllms_shape(cross):
    answer = score(cross, queries="what", documents=["it", "that"], request_id="mine")
    wanted = scores(2).values
    reply = answer.json
    ScoreList.model_validate(reply)
    assert reply.pop("created") > 0
    assert reply == {
        "id": "score-mine",
        "object": "list",
        "model": "tiny",
        "data": [{"index": i, "object": "score", "score": float(wanted[i])} for i in range(2)],
        "usage": {
            "prompt_tokens": 14,
            "total_tokens": 14,
            "completion_tokens": 0,
            "prompt_tokens_details": None,
            "completion_tokens_details": None,
        },
    }


@pytest.mark.parametrize("path", PATHS)
def test_every_path_leads_there(cross, path):
    assert len(score(cross, path, text_1="a", text_2="b").json["data"]) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [("queries", "documents"), ("queries", "items"), ("text_1", "text_2"), ("data_1", "data_2")],
)
def test_a_cross_encoder_is_asked_for_pairs(cross, first, second):
    assert score(cross, **{first: "a", second: ["b", "c"]}).status == 200
    pairs = [(query.text, document.text) for query, document in cross.pipeline.asked.pairs]
    assert pairs == [("a", "b"), ("a", "c")]
    assert score(cross, **{first: ["a", "b"], second: ["c", "d"]}).status == 200
    assert [(q.text, d.text) for q, d in cross.pipeline.asked.pairs] == [("a", "c"), ("b", "d")]
    assert all(prompt.add_special_tokens for pair in cross.pipeline.asked.pairs for prompt in pair)


def test_the_fields_of_a_pair_reach_the_model(cross):
    fields = {
        "max_tokens_per_query": 3,
        "max_tokens_per_doc": 4,
        "instruction": "judge",
        "chat_template_kwargs": {"x": 1},
        "use_activation": False,
        "truncate_prompt_tokens": 9,
        "truncation_side": "left",
        "priority": 7,
    }
    assert score(cross, queries="a", documents="b", **fields).status == 200
    asked = cross.pipeline.asked
    assert (asked.max_query_tokens, asked.max_document_tokens) == (3, 4)
    assert (asked.instruction, asked.template_kwargs, asked.activate) == ("judge", {"x": 1}, False)
    assert (asked.truncate_prompt_tokens, asked.truncate_left, asked.priority) == (9, True, 7)
    assert score(cross, queries="a", documents="b", max_tokens_per_query=0).status == 200
    assert cross.pipeline.asked.max_query_tokens is None


def test_a_trusted_template_writes_pairs_and_nothing_else(make_rig):
    cross = make_rig(PooledPipeline("rerank"), trust_request_chat_template=True)
    assert score(cross, queries="a", documents="b", chat_template="{{ 1 }}").status == 200
    assert cross.pipeline.asked.chat_template == "{{ 1 }}"
    vectors = make_rig(PooledPipeline("embed"), trust_request_chat_template=True)
    assert "embeds each text separately" in refused(
        score(vectors, queries="a", documents="b", chat_template="{{ 1 }}")
    )


def test_one_query_is_read_once_by_a_model_of_vectors(vectors):
    answer = score(vectors, queries="a", documents=["b", "c", "d"], use_activation=False)
    asked = vectors.pipeline.asked
    assert asked.prompts == [Prompt(text=text, add_special_tokens=True) for text in "abcd"]
    assert asked.activate
    values = rows(4).values
    got = [each["score"] for each in answer.json["data"]]
    np.testing.assert_allclose(got, values[1:] @ values[0], rtol=1e-6)


def test_each_query_has_its_document(vectors):
    got = [each["score"] for each in score(vectors, queries=["a", "b"], documents=["c", "d"]).json["data"]]
    values = rows(4).values
    np.testing.assert_allclose(got, [values[0] @ values[2], values[1] @ values[3]], rtol=1e-6)


def test_vectors_of_tokens_are_compared_by_their_best(make_rig):
    rig = make_rig(PooledPipeline("token_embed"))
    got = [each["score"] for each in score(rig, queries="a", documents=["b", "c"]).json["data"]]
    query, *documents = token_rows(3).values
    wanted = [sum(max(float(q @ d) for d in document) for q in query) for document in documents]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_texts_of_a_model_of_vectors_are_cut_too(vectors, tokenizer):
    node = object.__new__(Tokenize)
    node.tokenizer, node.reader = tokenizer, TextReader(tokenizer, 512)
    vectors.pipeline.lines = [SimpleNamespace(node=node)]
    fields = {"max_tokens_per_query": 2, "max_tokens_per_doc": 3}
    assert score(vectors, queries="abcdef", documents=["abcdef", "ab"], **fields).status == 200
    texts = [prompt.text for prompt in vectors.pipeline.asked.prompts]
    lengths = [len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]
    assert lengths == [2, 3, min(3, lengths[2])]
    assert all("abcdef".startswith(text) for text in texts)
    assert texts[2] == "ab"


@pytest.mark.parametrize(
    "text",
    [{"text": "hi"}, {"content": "hi"}, {"content": [{"type": "text", "text": "hi"}]}],
    ids=str,
)
def test_a_text_may_be_an_object(cross, text):
    assert score(cross, queries=text, documents=[text, "b"]).status == 200
    assert cross.pipeline.asked.pairs[0][1].text == "hi"


def test_parts_are_joined_by_newlines(cross):
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert score(cross, queries="q", documents={"content": parts}).status == 200
    assert cross.pipeline.asked.pairs[0][1].text == "a\nb"


def test_an_image_is_refused(cross):
    image = {"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}
    answer = score(cross, queries="q", documents=["a", image])
    assert "takes text only" in refused(answer)
    assert answer.error["param"] == "documents.1.content.0"


@in_one_test(
    "fields, text",
    [
        (
            {"queries": ["a", "b"], "documents": ["a", "b", "c"]},
            "Input lengths must be either 1:1, 1:N or N:N",
        ),
        ({"queries": ["a", "b"], "documents": ["a"]}, "Input lengths must be either 1:1, 1:N or N:N"),
        ({"queries": [], "documents": []}, "At least one text element must be given"),
        ({"queries": "a", "documents": []}, "At least one text element must be given"),
        ({"queries": "a"}, "exactly one pair"),
        ({}, "exactly one pair"),
        ({"queries": "a", "documents": "b", "text_1": "a", "text_2": "b"}, "exactly one pair"),
        ({"queries": "a", "text_2": "b"}, "exactly one pair"),
        ({"queries": 5, "documents": "b"}, "`queries` must be a string or a list of strings, got 5"),
        ({"queries": "a", "documents": [5]}, "`documents.0` must be a string, or an object"),
        ({"queries": "a", "documents": [{}]}, "`documents.0` must hold either `text` or `content`"),
        (
            {"queries": "a", "documents": "b", "max_tokens_per_doc": -1},
            "max_tokens_per_doc must be greater than or equal to 0, got -1.",
        ),
        ({"queries": "a", "documents": ["x"] * (MAX_TEXTS + 1)}, f"`documents` may hold {MAX_TEXTS} texts"),
        (
            {"queries": "a", "documents": "b", "chat_template": "x"},
            "BRAID_TRUST_REQUEST_CHAT_TEMPLATE is not set",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(cross, fields, text):
    assert text in refused(score(cross, **fields))


def test_the_missing_side_is_named(cross):
    assert score(cross, text_1="a").error["param"] == "text_2"
    assert score(cross, documents="a").error["param"] == "queries"


def test_null_fields_are_not_set(cross):
    names = ("items", "text_1", "data_2", "instruction", "max_tokens_per_doc", "chat_template", "normalize")
    assert score(cross, queries="a", documents="b", **dict.fromkeys(names)).status == 200


def test_a_model_that_cannot_is_not_asked(make_rig):
    answer = score(make_rig(PooledPipeline("classify")), queries="a", documents="b")
    assert (answer.status, answer.error["param"]) == (404, "model")


def test_equal_texts_are_as_near_as_can_be():
    row = np.array([[0.6, 0.8]], np.float32)
    assert abs(float(cosines(row, row)[0]) - 1) < 1e-6
    assert similarities(PooledOutputs(np.vstack([row, row, -row])), 1).tolist() == pytest.approx([1, -1])


def test_late_interaction_may_exceed_one():
    tokens = np.eye(3, dtype=np.float32)
    assert max_sim(tokens[:2], tokens) == pytest.approx(2)


def test_long_queries_are_compared_in_blocks():
    rng = np.random.default_rng(0)
    query, document = (rng.standard_normal((length, 8)).astype(np.float32) for length in (300, 50))
    assert max_sim(query, document) == pytest.approx((query @ document.T).max(axis=1).sum(), rel=1e-5)


def test_a_query_counts_with_each_document(cross, vectors, monkeypatch):
    monkeypatch.setattr("pipelines.requests.pooling.input_parsing.MAX_TOTAL_CHARS", 33)
    fields = {"queries": "x" * 10, "documents": ["a"] * 3}
    assert score(cross, **fields).status == 200
    fields["documents"].append("b")
    assert "`documents`: 4 texts of 44 characters together" in refused(score(cross, **fields))
    aside = {"queries": "a", "documents": ["b"] * 3}
    assert "of 36 characters" in refused(score(cross, **aside, instruction="x" * 10))
    assert "of 39 characters" in refused(score(cross, **aside, chat_template_kwargs={"x": "yz"}))
    assert score(vectors, **fields).status == 200  # there each text is read once


@pytest.mark.parametrize(
    ("fields", "activates"),
    [
        ({}, True),
        ({"activation": False}, False),
        ({"activation": False, "use_activation": True}, True),
        ({"raw_scores": True}, False),
        ({"raw_scores": False}, True),
        ({"encoding_format": "float", "normalize": True}, True),
    ],
)
def test_other_names_of_raw_scores_are_honoured(cross, fields, activates):
    assert score(cross, queries="a", documents="b", **fields).status == 200
    assert cross.pipeline.asked.activate is activates


def test_an_unknown_field_of_a_text_is_ignored(make_rig, cross):
    body = {"queries": {"text": "a", "contents": 1}, "documents": "b"}
    answer = score(cross, **body)
    assert answer.status == 200
    assert answer.headers["x-braid-ignored-fields"] == "contents;nearest=content"
    strict = make_rig(PooledPipeline("rerank"), strict_fields=True)
    assert refused(score(strict, **body)).startswith("unknown field `queries.0.contents`")
