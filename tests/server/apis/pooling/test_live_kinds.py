"""Several kinds of vectors over HTTP, in the forms of the databases that store them."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from fake_decoder import byte_tokenizer
from fake_encoder import FAKE_BATCHER, row_of, use_fake_encoders, write_fake_encoder
from live_app import answers

LINES = """\
      words: {type: sparse, from: hidden}
      each: {type: encoder, from: batch, path: tokens.fake}
      dense: {type: encoder, from: batch, path: dense.fake}
"""
TEXT = "ab"
IDS = byte_tokenizer().encode(TEXT).ids


@pytest.fixture
def ask(tmp_path, monkeypatch):
    use_fake_encoders(monkeypatch)
    folder = write_fake_encoder(tmp_path / "m", FAKE_BATCHER + LINES, size=5)
    (folder / "tokens.fake").write_text('{"size": 3, "per_token": true}')
    (folder / "dense.fake").write_text('{"size": 4}')
    return lambda *given: answers(tmp_path, given)


def weights():
    return {place: float(np.log1p(logit)) for place, logit in enumerate(row_of(IDS, size=5)) if logit}


def vectors():
    return [row_of(IDS[:end], size=3).tolist() for end in range(1, len(IDS) + 1)]


def test_a_reply_has_the_kinds_that_it_was_asked_for(ask):
    def of(*kinds, **more):
        return "/v1/embeddings", {"model": "m", "input": [TEXT], "embedding_kinds": kinds, **more}

    everything, sparse, ids, tokens, listed, cut, packed, unknown, alone = ask(
        of("dense", "sparse", "each"),
        of("sparse"),
        of("words", sparse_format="ids"),
        of("sparse", sparse_format="tokens"),
        of("sparse", sparse_format="list"),
        of("sparse", sparse_top_k=2, sparse_threshold=0.5),
        of("each", encoding_format="base64", embed_dtype="float16"),
        of("colbert"),
        ("/v1/embeddings", {"model": "m", "input": TEXT, "sparse_top_k": 2}),
    )
    (item,) = everything.json["data"]
    expected = weights()
    assert item.keys() == {"index", "object", "embedding", "sparse_embedding", "token_embeddings"}
    assert item["embedding"] == row_of(IDS).tolist()
    assert item["token_embeddings"] == vectors()
    assert dict(zip(*item["sparse_embedding"].values(), strict=True)) == pytest.approx(expected)
    (item,) = sparse.json["data"]
    assert item["embedding"] is None
    assert item["sparse_embedding"]["indices"] == sorted(expected)
    assert ids.json["data"][0]["sparse_embedding"].keys() == {str(place) for place in expected}
    known = {byte_tokenizer().id_to_token(place) for place in expected}
    assert tokens.json["data"][0]["sparse_embedding"].keys() == known
    assert [row["index"] for row in listed.json["data"][0]["sparse_embedding"]] == sorted(expected)
    best = sorted(sorted(expected, key=lambda place: -expected[place])[:2])
    assert cut.json["data"][0]["sparse_embedding"]["indices"] == best
    (item,) = packed.json["data"]
    halves = np.frombuffer(base64.b64decode(item["token_embeddings"]), np.float16)
    assert halves.reshape(item["token_embeddings_shape"]).tolist() == np.float16(vectors()).tolist()
    assert unknown.status == 400
    assert "this model has no `colbert` vectors" in unknown.json["error"]["message"]
    assert (alone.status, alone.json["error"]["param"]) == (400, "sparse_top_k")


def test_documents_are_ranked_by_the_kind_that_a_request_names(ask):
    body = {"model": "m", "query": TEXT, "documents": ["a", TEXT], "top_n": 2}
    sparse, plain = ask(("/v1/rerank", {**body, "embedding_kind": "sparse"}), ("/v1/rerank", body))
    own = weights()
    scores = {each["index"]: each["relevance_score"] for each in sparse.json["results"]}
    assert scores[1] == pytest.approx(sum(weight**2 for weight in own.values()), rel=1e-4)
    assert plain.json["results"][0]["relevance_score"] == pytest.approx(max(scores.values()))


def test_documents_may_come_with_the_vectors_of_their_tokens(ask):
    """MaxSim over vectors that the client has stored is that over texts; the model reads the query alone."""
    wanted = {"model": "m", "embedding_kinds": ["each"], "encoding_format": "base64"}
    body = {"model": "m", "query": TEXT, "embedding_kind": "each"}
    texts, stored, halves = ask(
        ("/v1/rerank", {**body, "documents": ["a", "abc", "b"]}),
        ("/v1/embeddings", {**wanted, "input": ["a", "abc"]}),
        ("/v1/embeddings", {**wanted, "input": ["a", "abc"], "embed_dtype": "float16"}),
    )
    items, small = stored.json["data"], halves.json["data"]
    lists = [
        {"token_embeddings": np.frombuffer(base64.b64decode(row["token_embeddings"]), "<f4")} for row in items
    ]
    lists = [
        {"token_embeddings": row["token_embeddings"].reshape(-1, 3).tolist(), "text": "x"} for row in lists
    ]
    packed, listed, half, others, odd, unequal, no_tokens, damaged = ask(
        ("/v1/rerank", {**body, "documents": [*items, "b"]}),
        ("/v1/rerank", {**body, "documents": lists}),
        ("/v1/rerank", {**body, "documents": small, "embed_dtype": "float16"}),
        ("/v1/rerank", {**body, "documents": [{"token_embeddings": [[1.0, 2.0]]}]}),
        ("/v1/rerank", {**body, "documents": [{"token_embeddings": "AAAAAA=="}]}),
        ("/v1/rerank", {**body, "documents": [{"token_embeddings": [[1.0], [2.0, 3.0]]}]}),
        ("/v1/rerank", {**body, "documents": ["a", items[0]], "embedding_kind": "sparse"}),
        ("/v1/rerank", {**body, "documents": [{"token_embeddings": "AAA"}]}),
    )
    assert ranks(packed) == pytest.approx(ranks(texts))
    assert ranks(listed) == pytest.approx({place: ranks(texts)[place] for place in (0, 1)})
    assert ranks(half) == pytest.approx(ranks(listed), rel=1e-2)
    assert packed.json["usage"]["prompt_tokens"] < texts.json["usage"]["prompt_tokens"]
    assert listed.json["results"][0]["document"]["text"] == "x"
    for refused, place in ((others, 0), (odd, 0), (unequal, 0), (no_tokens, 1), (damaged, 0)):
        assert (refused.status, refused.json["error"]["param"]) == (
            400,
            f"documents.{place}.token_embeddings",
        )


def ranks(reply):
    return {each["index"]: each["relevance_score"] for each in reply.json["results"]}
