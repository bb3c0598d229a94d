"""Labels of tokens over HTTP: TEI's /predict and vLLM's /pooling, around an encoder that hashes."""

from __future__ import annotations

import json

import pytest
from fake_decoder import byte_tokenizer
from fake_encoder import FAKE_BATCHER, row_of, use_fake_encoders, write_fake_encoder
from live_app import answers

LABELS = ["O", "B-PER", "I-PER", "LOC"]
EACH = "      each: {type: pool, from: hidden, how: none}\n"
ENTITIES = """\
  entities:
    type: token_labels
    from: {scores: rows, tokens: tokens, prompts: request.prompts}
    tokenizer: tokenizer.json
    labels: labels.json
"""
TEXT = "Ada of Oslo"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    tagger = FAKE_BATCHER.replace("task: embed", "task: token_classify") + EACH + ENTITIES
    write_fake_encoder(folder / "tagger", tagger, size=len(LABELS), per_token=True)
    (folder / "tagger/labels.json").write_text(json.dumps(LABELS))
    classes = FAKE_BATCHER.replace("task: embed", "task: classify")
    classes += "  classes: {type: label, from: rows, labels: labels.json}\n"
    write_fake_encoder(folder / "moods", classes, size=2)
    (folder / "moods/labels.json").write_text('["sad", "glad"]')
    return folder


@pytest.fixture
def ask(models, monkeypatch):
    use_fake_encoders(monkeypatch)
    return lambda *given: answers(models, given)


def rows(text):
    """What the encoder gives for each token of a text, which is one of its bytes."""
    ids = byte_tokenizer().encode(text).ids
    return [row_of(ids[:end], size=len(LABELS)).tolist() for end in range(1, len(ids) + 1)]


def tokens(text, ignored=("O",)):
    """The fields of transformers' pipeline for each token."""
    best = [max(range(len(LABELS)), key=row.__getitem__) for row in rows(text)]
    return [
        {"entity": LABELS[label], "score": row[label], "index": place, "start": place, "end": place + 1}
        for place, (label, row) in enumerate(zip(best, rows(text), strict=True))
        if LABELS[label] not in ignored
    ]


def without_word(entities):
    return [{name: value for name, value in entity.items() if name != "word"} for entity in entities]


def test_predict_gives_the_entities_of_texts(ask):
    def of(inputs, **more):
        return "/predict", {"model": "tagger", "inputs": inputs, **more}

    single_text, batch, everything, simple, nested, unknown, alone, windows, pair, whole = ask(
        of(TEXT),
        of([["Ada"], ["Oslo"]]),
        of(TEXT, ignore_labels=[]),
        of(TEXT, aggregation_strategy="simple"),
        of(TEXT, parameters={"aggregation_strategy": "simple", "ignore_labels": ["LOC"]}),
        of(TEXT, aggregation_strategy="best"),
        of(TEXT, stride=2),
        of(TEXT, parameters={"aggregation_strategy": "simple", "stride": 2}),
        of(["Ada", "Oslo"]),
        ("/predict", {"model": "moods", "inputs": "a", "aggregation_strategy": "simple"}),
    )
    assert without_word(single_text.json) == tokens(TEXT)
    assert [without_word(text) for text in batch.json] == [tokens("Ada"), tokens("Oslo")]
    assert without_word(everything.json) == tokens(TEXT, ignored=())
    assert [entity["word"] for entity in everything.json] == ["Ġ" if c == " " else c for c in TEXT]
    groups = simple.json
    assert {*groups[0]} == {"entity_group", "score", "word", "start", "end"}
    assert {group["entity_group"] for group in groups} <= {"PER", "LOC"}
    assert all(TEXT[group["start"] : group["end"]] == group["word"] for group in groups)
    assert sum(group["end"] - group["start"] for group in groups) == len(tokens(TEXT))
    assert "LOC" not in {group["entity_group"] for group in nested.json}
    assert "O" in {group["entity_group"] for group in nested.json}
    assert (unknown.status, unknown.json["error_type"]) == (422, "validation")
    assert (alone.status, alone.json["error_type"]) == (422, "validation")
    assert "aggregation_strategy" in alone.json["error"]
    assert windows.json == simple.json
    assert (pair.status, whole.status) == (424, 424)
    assert "classifies whole texts, not tokens" in whole.json["error"]


def test_pooling_gives_the_scores_of_each_token(ask):
    def of(**more):
        return "/pooling", {"model": "tagger", "input": ["ab", "c"], **more}

    plain, named, packed, refused, vectors = ask(
        of(),
        of(task="token_classify"),
        of(task="token_classify", encoding_format="bytes"),
        of(task="classify"),
        ("/v1/embeddings", {"model": "tagger", "input": "a"}),
    )
    assert [item["data"] for item in plain.json["data"]] == [rows("ab"), rows("c")]
    assert [item["data"] for item in named.json["data"]] == [rows("ab"), rows("c")]
    shapes = [place["shape"] for place in json.loads(packed.headers["metadata"])["data"]]
    assert shapes == [[2, len(LABELS)], [1, len(LABELS)]]
    assert (refused.status, refused.error["param"]) == (400, "task")
    assert vectors.status == 404


def test_labels_of_a_request_are_refused_where_a_model_has_its_own(ask):
    labels = {"labels": ["person"]}
    pooled, predicted, unnamed = ask(
        ("/pooling", {"model": "tagger", "input": TEXT, **labels}),
        ("/predict", {"model": "moods", "inputs": TEXT, **labels}),
        ("/pooling", {"model": "tagger", "input": TEXT, "threshold": 0.5}),
    )
    assert (pooled.status, pooled.error["param"]) == (400, "labels")
    assert "has labels of its own" in pooled.error["message"]
    assert predicted.status == 422
    assert "has labels of its own" in predicted.json["error"]
    assert (unnamed.status, unnamed.error["param"]) == (400, "threshold")
    assert "needs `labels`; name some, or leave it out" in unnamed.error["message"]
