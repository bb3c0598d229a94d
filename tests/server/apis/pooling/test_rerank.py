"""POST rerank: one reply for vLLM's, Jina's and Cohere's clients, another for OpenVINO Model Server's."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from one_test import in_one_test
from pooled_calls import PooledPipeline

from pipelines.base.errors import RequestError
from pipelines.requests.pooling.unsupported_fields import IGNORED_RERANKING, REFUSED_RERANKING
from pipelines.values.node_values import Scores
from server.apis.pooling.replies.ranking import OvmsRanking, Ranking, encode_ranking
from server.http.exchange import LONG_BODY_BYTES

PATHS = ["/rerank", "/v1/rerank", "/v2/rerank"]
OVMS_PATHS = ["/v3/rerank", "/v3/v1/rerank"]
DOCUMENTS = ["it", "that", "this", "those"]


@pytest.fixture
def rig(make_rig):
    pipeline = PooledPipeline("rerank")
    pipeline.value = Scores(np.array([0.25, 0.5, 0.125, 0.5], np.float32))
    return make_rig(pipeline)


@pytest.fixture
def rerank(rig):
    def ask(path="/rerank", **fields):
        return rig.post(path, {"model": "tiny", "query": "what", "documents": DOCUMENTS, **fields})

    return ask


def order(answer):
    assert answer.status == 200, answer.body
    return [each["index"] for each in answer.json["results"]]


def shown(answer):
    return [each.get("document") for each in answer.json["results"]]


@pytest.mark.parametrize("path", PATHS)
def test_one_reply_serves_vllm_jina_and_cohere(rerank, path):
    def result(index, score):
        return {
            "index": index,
            "document": {"text": DOCUMENTS[index], "multi_modal": None},
            "relevance_score": score,
        }

    reply = rerank(path, request_id="mine").json
    Ranking.model_validate(reply)
    assert reply == {
        "id": "score-mine",
        "object": "list",
        "model": "tiny",
        "results": [result(1, 0.5), result(3, 0.5), result(0, 0.25), result(2, 0.125)],
        "usage": {"prompt_tokens": 31, "total_tokens": 31},
        "meta": {
            "api_version": {"version": "2"},
            "billed_units": {"search_units": 1},
            "tokens": {"input_tokens": 31},
        },
    }


@pytest.mark.parametrize(
    ("top_n", "wanted"),
    [(None, [1, 3, 0, 2]), (0, [1, 3, 0, 2]), (1, [1]), (2, [1, 3]), (99, [1, 3, 0, 2])],
)
def test_top_n(rerank, top_n, wanted):
    assert order(rerank(top_n=top_n)) == wanted
    assert order(rerank("/v3/rerank", top_n=top_n)) == wanted


@pytest.mark.parametrize("path", PATHS)
def test_documents_are_left_out_when_not_wanted(rerank, path):
    assert shown(rerank(path, return_documents=False)) == [None] * 4
    assert shown(rerank(path, return_documents=True, top_n=1)) == [{"text": "that", "multi_modal": None}]
    assert shown(rerank(path, return_documents=None, top_n=1)) == [{"text": "that", "multi_modal": None}]


@pytest.mark.parametrize("path", OVMS_PATHS)
def test_openvinos_reply_holds_results_only(rerank, rig, path):
    assert rerank(path, top_n=2).json == {
        "results": [{"index": 1, "relevance_score": 0.5}, {"index": 3, "relevance_score": 0.5}]
    }
    assert rig.pipeline.asked.chunk
    OvmsRanking.model_validate(rerank(path, return_documents=True).json)
    assert rerank(path, top_n=1, return_documents=True).json == {
        "results": [{"index": 1, "document": {"text": "that"}, "relevance_score": 0.5}]
    }


def test_long_documents_are_cut_where_wanted(rerank, rig):
    rerank()
    assert not rig.pipeline.asked.chunk
    rerank(chunk_documents=True)
    assert rig.pipeline.asked.chunk
    rerank("/v3/rerank", chunk_documents=False)
    assert not rig.pipeline.asked.chunk


def test_only_a_cross_encoder_reads_parts(make_rig):
    rig = make_rig(PooledPipeline("embed"))
    body = {"model": "tiny", "query": "what", "documents": DOCUMENTS}
    assert order(rig.post("/v3/rerank", body)) == order(rig.post("/rerank", body))
    answer = rig.post("/rerank", {**body, "chunk_documents": True})
    assert (answer.status, answer.error["param"]) == (400, "chunk_documents")


def read(rig):
    return [document.text for _, document in rig.pipeline.asked.pairs]


def test_documents_may_be_objects(rerank, rig):
    rig.pipeline.value = None
    documents = [{"text": "a", "title": "t"}, "b", {"content": [{"type": "text", "text": "c"}]}]
    answer = rerank(documents=documents)
    assert read(rig) == ["a", "b", "c"]
    assert sorted(each["text"] for each in shown(answer)) == ["a", "b", "c"]


def test_one_document_needs_no_list(rerank, rig):
    rig.pipeline.value = None
    assert order(rerank(documents="b")) == [0]
    assert read(rig) == ["b"]


def test_the_fields_to_rank_by_are_read_in_their_order(rerank, rig):
    rig.pipeline.value = None
    documents = [{"title": "T", "text": "x", "year": 1999}, {"text": "y", "other": [1]}]
    answer = rerank(documents=documents, rank_fields=["year", "title", "text"])
    assert read(rig) == ["1999\nT\nx", "y"]
    assert sorted(each["text"] for each in shown(answer)) == ["x", "y"]
    answer = rerank(documents=documents[:1], rank_fields=["title"])
    assert (read(rig), shown(answer)) == (["T"], [{"text": "x", "multi_modal": None}])


@pytest.mark.parametrize("query", [{"text": "what"}, {"content": "what"}], ids=str)
def test_a_query_may_be_an_object(rerank, rig, query):
    assert rerank(query=query).status == 200
    assert rig.pipeline.asked.pairs[0][0].text == "what"


@in_one_test(
    "fields, text, param",
    [
        ({"documents": []}, "At least one text_pair element must be given", None),
        ({"top_n": -1}, "top_n must be greater than or equal to 0, got -1.", "top_n"),
        ({"top_n": "two"}, "`top_n` must be an integer", "top_n"),
        ({"query": None}, "`query` must be a string, or an object", "query"),
        ({"documents": None}, "`documents` must be a list", "documents"),
        ({"documents": [{"image": "x"}]}, "an image is a part of `content`", "documents.0.image"),
        ({"documents": [{"a": 1}]}, "`documents.0` must hold either `text` or `content`", "documents.0"),
        (
            {"documents": [{"a": 1}], "rank_fields": ["b"]},
            "none of the fields in `rank_fields`",
            "documents.0",
        ),
        ({"documents": [{"a": []}], "rank_fields": ["a"]}, "must be a string or a number", "documents.0.a"),
        ({"rank_fields": "text"}, "`rank_fields` must be a list", "rank_fields"),
        ({"return_documents": "maybe"}, "`return_documents` must be true or false", "return_documents"),
        *(({name: "x"}, why.reason, name) for name, why in REFUSED_RERANKING.items()),
    ],
)
def test_what_cannot_be_ranked_is_refused(rerank, fields, text, param):
    answer = rerank(**fields)
    assert (answer.status, answer.error["param"]) == (400, param)
    assert text in answer.error["message"]


def test_what_is_missing_is_named(rig):
    answer = rig.post("/rerank", {})
    assert answer.error["message"] == "`query` is required; `documents` is required"


@pytest.mark.parametrize("name", IGNORED_RERANKING)
def test_an_ignored_field_changes_nothing(rerank, name):
    assert rerank(**{name: 3}).json["results"] == rerank().json["results"]


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])
def test_cohere_finds_the_message_of_an_error_at_the_top(rerank, path):
    reply = rerank(path, documents=[]).json
    assert reply["message"] == reply["error"]["message"] == "At least one text_pair element must be given"
    assert "message" not in rerank("/rerank", documents=[]).json


def test_what_the_model_refuses_is_told(rerank, rig):
    rig.pipeline.value = RequestError("too long", "input_tokens")
    assert (rerank().status, rerank().error["message"]) == (400, "too long")
    assert rerank("/v3/rerank").json == {"error": "too long"}


BAD = [
    ("query", 5, "query is not a string"),
    ("query", None, "query is not a string"),
    ("documents", "b", "documents is not an array"),
    ("documents", None, "documents is not an array"),
    ("documents", [1], "documents array element is neither string nor object"),
    ("documents", ["a", {"text": "b"}], "all documents have to be the same type (string or objects)"),
    ("top_n", 1.5, "top_n accepts integer values"),
    ("top_n", True, "top_n accepts integer values"),
    ("return_documents", 1, "return_documents accepts boolean values"),
]


@in_one_test("field, value, text", BAD)
@pytest.mark.parametrize("path", OVMS_PATHS)
def test_openvinos_words(rerank, path, field, value, text):
    answer = rerank(path, **{field: value})
    assert (answer.status, answer.json) == (400, {"error": text})


@pytest.mark.parametrize("name", ["query", "documents"])
def test_openvinos_words_for_what_is_missing(rig, name):
    body = {"model": "tiny", "query": "a", "documents": ["b"]}
    del body[name]
    answer = rig.post("/v3/rerank", body)
    assert (answer.status, answer.json) == (400, {"error": f"{name} field is missing in request"})


@pytest.mark.parametrize(("length", "on_loop"), [(10, True), (LONG_BODY_BYTES, False)])
def test_long_documents_are_written_off_the_event_loop(rerank, monkeypatch, length, on_loop):
    threads = []

    def recorded(*given):
        threads.append(threading.current_thread())
        return encode_ranking(*given)

    monkeypatch.setattr("server.apis.pooling.rerank_endpoint.encode_ranking", recorded)
    assert order(rerank(documents=[*DOCUMENTS[:3], "x" * length])) == [1, 3, 0, 2]
    assert [thread is threading.main_thread() for thread in threads] == [on_loop]
