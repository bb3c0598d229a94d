"""text-embeddings-inference's API over real graphs, around encoders that hash."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fake_decoder import byte_tokenizer
from fake_encoder import FAKE_BATCHER, row_of, use_fake_encoders, write_fake_encoder
from live_app import answers

ONE = "{type: tokenize, from: request.prompts,"
TWO = "{type: tokenize_pairs, from: request,"
CLASSES = "  classes: {type: label, from: rows, labels: labels.json}\n"
RANKING = "  ranking: {type: rank, from: {scores: rows, pairs: tokens}}\n"
UNIT = "hidden: {type: encoder, from: batch, path: encoder.fake}\n"
VECTORS = "  cut: {type: matryoshka, from: rows, dimensions: [2, 4]}\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    tokens = FAKE_BATCHER.replace("task: embed", "task: token_embed")
    tokens = tokens.replace(UNIT, UNIT + "      each: {type: pool, from: hidden, how: none}\n")
    classify = FAKE_BATCHER.replace("task: embed", "task: classify").replace(ONE, TWO)
    write_fake_encoder(folder / "vectors", FAKE_BATCHER + VECTORS, size=4)
    write_fake_encoder(folder / "tokens", tokens, size=3, per_token=True)
    write_fake_encoder(
        folder / "words", FAKE_BATCHER + "      weights: {type: sparse, from: hidden}\n", size=5
    )
    write_fake_encoder(folder / "moods", classify + CLASSES, size=3)
    rerank = FAKE_BATCHER.replace("task: embed", "task: rerank").replace(ONE, TWO) + RANKING
    write_fake_encoder(folder / "ranks", rerank, size=1)
    (folder / "moods/labels.json").write_text('["sad", "calm", "glad"]')
    return folder


@pytest.fixture
def ask(models, monkeypatch):
    use_fake_encoders(monkeypatch)
    return lambda *given: answers(models, given)


def ids(text):
    return byte_tokenizer().encode(text).ids


def row(text, size=4, **more):
    return row_of(ids(text), size=size, **more).tolist()


def test_vectors(ask):
    single_text, several, titled, plain, cut, short = ask(
        ("/embed", {"model": "vectors", "inputs": "a"}),
        ("/embed", {"model": "vectors", "inputs": ["a", ids("bc")], "truncation_direction": "Left"}),
        ("/embed", {"model": "vectors", "inputs": ids("bc"), "user": "someone"}),
        ("/embed", {"model": "vectors", "inputs": "a", "normalize": False}),
        ("/embed", {"model": "vectors", "inputs": ["x" * 99], "truncate": True}),
        ("/embed", {"model": "vectors", "inputs": "a", "dimensions": 2}),
    )
    assert single_text.json == [row("a")]
    assert several.json == [row("a"), row("bc")]
    assert titled.json == [row("bc")]
    assert plain.json == [row("a", activate=False)]
    assert cut.json == [row("x" * 64)]
    assert len(short.json[0]) == 2
    assert (several.headers["x-compute-tokens"], several.headers["x-compute-characters"]) == ("3", "1")
    assert int(single_text.headers["x-total-time"]) >= 0


def test_a_text_that_is_too_long(ask):
    refused, left = ask(
        ("/embed", {"model": "vectors", "inputs": "x" * 99, "truncate": False}),
        ("/embed", {"model": "vectors", "inputs": "y" + "x" * 64, "truncation_direction": "left"}),
    )
    assert (refused.status, refused.json["error_type"]) == (422, "validation")
    assert refused.json["error"].startswith("`inputs` must have less than 64 tokens.")
    assert left.json == [row("x" * 64)]


def test_vectors_of_tokens_and_of_words(ask):
    tokens, words, dense = ask(
        ("/embed_all", {"model": "tokens", "inputs": ["ab"]}),
        ("/embed_sparse", {"model": "words", "inputs": "a"}),
        ("/embed", {"model": "words", "inputs": "a"}),
    )
    assert tokens.json == [[row("a", 3), row("ab", 3)]]
    wanted = np.log1p(np.array(row("a", 5), np.float32))
    assert [entry["index"] for entry in words.json[0]] == np.nonzero(wanted)[0].tolist()
    assert [entry["value"] for entry in words.json[0]] == pytest.approx(wanted[wanted > 0].tolist())
    assert (dense.status, dense.json["error_type"]) == (424, "backend")  # no SPLADE vector has length 1


def test_labels(ask):
    single_text, pair, batch, mixed, alone = ask(
        ("/predict", {"model": "moods", "inputs": "a"}),
        ("/predict", {"model": "moods", "inputs": ["a", "b"], "raw_scores": True}),
        ("/predict", {"model": "moods", "inputs": [["a"], ["b"]]}),
        ("/predict", {"model": "moods", "inputs": [["a"], ["b", "c"]]}),
        ("/predict", {"model": "ranks", "inputs": ["a", "b"]}),
    )
    scores = dict(zip(("sad", "calm", "glad"), row("a", 3), strict=True))
    assert {entry["label"]: entry["score"] for entry in single_text.json} == scores
    assert [entry["score"] for entry in single_text.json] == sorted(scores.values(), reverse=True)
    assert {labels_of_text["score"] for labels_of_text in pair.json} == {*row("ab", 3, activate=False)}
    assert [len(entry) for entry in batch.json] == [3, 3]
    assert (mixed.status, mixed.json["error_type"]) == (422, "validation")
    assert alone.json == [{"score": row("ab", 1)[0], "label": "LABEL_0"}]


def test_ranking(ask):
    ranked, raw, others = ask(
        ("/rerank", {"model": "ranks", "query": "q", "texts": ["a", "bb", "c"], "return_text": True}),
        ("/rerank", {"model": "ranks", "query": "q", "texts": ["a", "bb"], "raw_scores": True}),
        ("/rerank", {"model": "ranks", "query": "q", "documents": ["a"]}),
    )
    scores = {text: row("q" + text, 1)[0] for text in ("a", "bb", "c")}
    assert [entry["text"] for entry in ranked.json] == sorted(scores, key=lambda text: -scores[text])
    assert {entry["text"]: entry["score"] for entry in ranked.json} == scores
    assert {entry["score"] for entry in raw.json} == {
        row("q" + text, 1, activate=False)[0] for text in ("a", "bb")
    }
    assert others.json["results"][0]["relevance_score"] == scores["a"]


def test_similarity_and_text_of_ids(ask):
    alike, decoded, one = ask(
        ("/similarity", {"model": "vectors", "inputs": {"source_sentence": "a", "sentences": ["a", "b"]}}),
        ("/decode", {"model": "vectors", "ids": [ids("ab"), [*ids("c"), 256]]}),
        ("/decode", {"model": "vectors", "ids": [*ids("c"), 256], "skip_special_tokens": False}),
    )
    assert alike.json == pytest.approx([float(np.dot(row("a"), row(text))) for text in "ab"])
    assert (decoded.json, one.json) == (["ab", "c"], ["c<|endoftext|>"])


def test_what_a_model_is(ask):
    vectors, words, moods, ranks, default = ask(
        *((f"/info?model={name}", None) for name in ("vectors", "words", "moods", "ranks")), ("/info", None)
    )
    assert vectors.json["model_type"] == {"embedding": {"pooling": "mean"}}
    assert words.json["model_type"] == {"embedding": {"pooling": "splade"}}
    assert moods.json["model_type"]["classifier"]["id2label"] == {"0": "sad", "1": "calm", "2": "glad"}
    assert ranks.json["model_type"]["reranker"]["label2id"] == {"LABEL_0": 0}
    assert (vectors.json["max_input_length"], vectors.json["max_client_batch_size"]) == (64, 16384)
    assert default.json["error_type"] in ("validation", "backend")  # two models embed


def test_the_root_does_what_the_model_does(ask):
    embedded, predicted, ranked, alike = ask(
        ("/", {"model": "vectors", "inputs": "a"}),
        ("/", {"model": "moods", "inputs": "a"}),
        ("/", {"model": "ranks", "query": "q", "texts": ["a"]}),
        ("/", {"model": "vectors", "inputs": {"source_sentence": "a", "sentences": ["b"]}}),
    )
    assert embedded.json == [row("a")]
    assert {entry["label"] for entry in predicted.json} == {"sad", "calm", "glad"}
    assert ranked.json == [{"index": 0, "score": row("qa", 1)[0]}]
    assert math.isclose(alike.json[0], float(np.dot(row("a"), row("b"))), rel_tol=1e-6)


def test_tokens_with_their_places(ask):
    (found,) = ask(("/tokenize", {"model": "vectors", "inputs": ["é<|im_end|>", "a"]}))
    assert found.json == [
        [
            {"id": ids("é")[0], "text": "é", "special": False, "start": 0, "stop": 2},
            {"id": ids("é")[1], "text": "é", "special": False, "start": 0, "stop": 2},
            {"id": 258, "text": "<|im_end|>", "special": False, "start": 2, "stop": 12},
        ],
        [{"id": ids("a")[0], "text": "a", "special": False, "start": 0, "stop": 1}],
    ]
