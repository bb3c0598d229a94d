"""score, rerank and Cohere's embed over real graphs: request nodes, the engine and the wire."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from breadth import after
from broken_bodies import BROKEN
from fake_encoder import row_of
from random_bodies import random_body
from test_live_models import MODELS, ask, ids, models

__all__ = ["ask", "models"]  # fixtures

MAX_CONTEXT = 64
DOCUMENTS = ["it", "that is", "zz", "it"]


def pair_score(query, document):
    return row_of(ids(query) + ids(document), size=1)[0]


def test_a_cross_encoder_scores_pairs(ask):
    single_pair, pairwise, ranked, two = ask(
        ("/score", {"model": "pairs", "queries": "what", "documents": DOCUMENTS}),
        ("/v1/score", {"model": "pairs", "text_1": DOCUMENTS, "text_2": DOCUMENTS}),
        ("/v2/rerank", {"model": "pairs", "query": "what", "documents": DOCUMENTS}),
        ("/rerank", {"model": "pairs", "query": "what", "documents": DOCUMENTS, "top_n": 2}),
    )
    scores = [pair_score("what", document) for document in DOCUMENTS]
    assert [row["score"] for row in single_pair.json["data"]] == scores
    assert single_pair.json["usage"]["prompt_tokens"] == sum(len(ids("what" + text)) for text in DOCUMENTS)
    assert [row["score"] for row in pairwise.json["data"]] == [pair_score(text, text) for text in DOCUMENTS]
    order = sorted(range(4), key=lambda i: -scores[i])
    assert [(row["index"], row["relevance_score"]) for row in ranked.json["results"]] == [
        (i, scores[i]) for i in order
    ]
    assert two.json["results"] == ranked.json["results"][:2]


def test_a_long_document_counts_by_its_best_part(ask):
    body = {"model": "pairs", "query": "what", "documents": ["abc" * 60, "it"], "return_documents": True}
    ovms, chunked, refused, cut = ask(
        ("/v3/rerank", body),
        ("/rerank", {**body, "chunk_documents": True}),
        ("/rerank", body),
        ("/rerank", {**body, "max_tokens_per_doc": 5}),
    )
    text, room = body["documents"][0], MAX_CONTEXT - len(ids("what"))
    parts = [text[start : start + room] for start in range(0, len(text), room)]
    wanted = {0: max(pair_score("what", part) for part in parts), 1: pair_score("what", "it")}
    for answer in (ovms, chunked):
        assert {row["index"]: row["relevance_score"] for row in answer.json["results"]} == wanted
    assert {row["document"]["text"] for row in ovms.json["results"]} == {*body["documents"]}
    assert (refused.status, refused.error["param"]) == (400, "input_tokens")
    got = {row["index"]: row["relevance_score"] for row in cut.json["results"]}
    assert got[0] == pair_score("what", text[:5])


def test_models_of_vectors_compare_what_they_give(ask):
    body = {"queries": "what", "documents": ["it", "that"]}
    by_text, by_token, cut = ask(
        ("/score", {"model": "vectors", **body}),
        ("/score", {"model": "tokens", **body}),
        ("/score", {"model": "vectors", **body, "max_tokens_per_query": 2, "max_tokens_per_doc": 1}),
    )

    def rows(text):
        return np.array([row_of(ids(text)[: end + 1]) for end in range(len(ids(text)))])

    query, *documents = (rows(text) for text in ("what", "it", "that"))
    wanted = [query[-1] @ document[-1] for document in documents]
    np.testing.assert_allclose([row["score"] for row in by_text.json["data"]], wanted, rtol=1e-6)
    wanted = [(query @ document.T).max(1).sum() for document in documents]
    np.testing.assert_allclose([row["score"] for row in by_token.json["data"]], wanted, rtol=1e-6)
    wanted = [rows("wh")[-1] @ rows(text)[-1] for text in ("i", "t")]
    np.testing.assert_allclose([row["score"] for row in cut.json["data"]], wanted, rtol=1e-6)
    assert by_text.json["usage"]["prompt_tokens"] == len(ids("what" + "it" + "that"))


def test_coheres_vectors_are_cut_where_they_are_long(ask):
    long = "x" * 100
    whole, start, few, none, short = ask(
        ("/v2/embed", {"model": "vectors", "texts": [long, "a"]}),
        ("/v2/embed", {"model": "vectors", "texts": ["y" + long], "truncate": "START"}),
        ("/v1/embed", {"model": "vectors", "texts": ["abcdef"], "max_tokens": 2}),
        ("/v2/embed", {"model": "vectors", "texts": [long], "truncate": "NONE"}),
        ("/v2/embed", {"model": "nested", "texts": ["a"], "output_dimension": 2}),
    )
    assert whole.json["embeddings"]["float"] == [row_of(ids(long)[:64]).tolist(), row_of(ids("a")).tolist()]
    assert start.json["embeddings"]["float"] == [row_of(ids(long)[:64]).tolist()]
    assert few.json["embeddings"] == [row_of(ids("ab")).tolist()]
    assert few.json["meta"]["billed_units"] == {"input_tokens": 2, "image_tokens": 0}
    assert (none.status, "64 tokens" in none.json["message"]) == (400, True)
    assert len(short.json["embeddings"]["float"][0]) == 2


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (
            "/score",
            {"model": "moods", "queries": "a", "documents": "b"},
            404,
            "models that do: nested, pairs",
        ),
        ("/v2/embed", {"model": "pairs", "texts": ["a"]}, 404, "models that do: nested, vectors"),
        ("/v2/embed", {"model": "vectors", "texts": ["a"], "output_dimension": 2}, 400, "Matryoshka"),
        ("/v2/embed", {"model": "vectors", "texts": ["a"], "input_type": "query"}, 400, "input_type 'query'"),
        (
            "/v2/embed",
            {"model": "vectors", "texts": ["a"], "embedding_types": ["binary"]},
            400,
            "multiple of 8",
        ),
        ("/v2/embed", {"model": "vectors", "texts": [""]}, 400, "The decoder prompt cannot be empty"),
    ],
)
def test_what_a_model_cannot_do_is_said(path, body, status, words, ask):
    [answer] = ask((path, body))
    assert answer.status == status, answer.body
    assert words in str(answer.error)


@pytest.mark.parametrize("num_random", after(1, [12, 40]))
def test_no_body_breaks_a_model(ask, num_random):
    rng = random.Random(7)
    paths = ["/v1/score", "/v1/rerank", "/v3/rerank", "/v1/embed", "/v2/embed"]
    asked = [(path, body) for path in paths for body in BROKEN.values()]
    asked += [
        (path, random_body(path, rng) | {"model": name})
        for path in paths
        for name in MODELS
        for _ in range(num_random)
    ]
    answers = ask(*asked)
    for (_, body), answer in zip(asked, answers, strict=True):
        assert answer.status < 500, (
            json.dumps(body)[:300] if isinstance(body, dict) else body[:99],
            answer.body,
        )
    assert sum(answer.status == 200 for answer in answers) > 2 * num_random
