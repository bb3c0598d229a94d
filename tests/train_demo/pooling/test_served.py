"""The committed pooling models as they are served: right often enough, and composed as by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from breadth import after
from onnx import numpy_helper

from pipelines.base.errors import RequestError
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput
from tools.train_demo.pooling import evaluate, held_out
from tools.train_demo.pooling.serving import Served

REPOSITORY = Path(__file__).resolve().parents[3] / "model_repo"
NAMES = [f"braid-{demo}" for demo in evaluate.FIGURES]
FLOORS = {"rerank": 0.8, "embed": 0.7, "sentiment": 0.85, "topics": 0.85}
SOME = {"rerank": 80, "embed": 80, "sentiment": 240, "topics": 240}
TEXTS = ["The goalkeeper saved the last shot.", "Bake the cake for an hour.", "The senate votes on taxes."]


@pytest.fixture(scope="module")
def served():  # type: ignore[no-untyped-def]
    with Served(REPOSITORY, NAMES) as models:
        yield models


@pytest.mark.parametrize("demo", after(1, evaluate.FIGURES))
def test_a_model_is_right_often_enough(served: Served, demo: str) -> None:
    for figure in evaluate.FIGURES[demo](served, SOME[demo]):
        if figure.num_asked >= 60:
            assert figure.share >= FLOORS[demo], figure


def test_topics_are_the_head_over_the_vectors(served: Served) -> None:
    texts = [one["text"] for one in held_out.load("texts")[:40]]
    head = onnx.load(REPOSITORY / "braid-topics" / "head.onnx")
    weights = {one.name: numpy_helper.to_array(one) for one in head.graph.initializer}
    logits = served.vectors("braid-embed", texts) @ weights["weight"] + weights["bias"]
    powers = np.exp(logits - logits.max(1, keepdims=True))
    probabilities, labels = served.classes("braid-topics", texts)
    assert probabilities == pytest.approx(powers / powers.sum(1, keepdims=True), abs=1e-3)
    assert (probabilities.argmax(1) == logits.argmax(1)).all()
    assert len(labels) == logits.shape[1]


def test_log_odds_of_topics_are_those_of_vectors_of_length_one(served: Served) -> None:
    odds = served.ask(
        "braid-topics", PoolingInput(prompts=[Prompt(TEXTS[0], add_special_tokens=True)], activate=False)
    )
    probabilities, _ = served.classes("braid-topics", TEXTS[:1])
    powers = np.exp(odds.values)
    assert probabilities == pytest.approx(powers / powers.sum(), abs=1e-3)


def test_topics_of_plain_sentences(served: Served) -> None:
    probabilities, labels = served.classes("braid-topics", TEXTS)
    assert [labels[number] for number in probabilities.argmax(1)] == ["sport", "food", "politics"]


def test_sentiment_of_plain_sentences(served: Served) -> None:
    texts = ["I love it!", "The soup was not good.", "The food was great, but the waiter was terrible."]
    probabilities, labels = served.classes("braid-sentiment", texts)
    assert [labels[number] for number in probabilities.argmax(1)] == ["positive", "negative", "negative"]


def test_the_first_numbers_of_a_vector_are_a_vector(served: Served) -> None:
    whole, short = served.vectors("braid-embed", TEXTS), served.vectors("braid-embed", TEXTS, 32)
    assert np.linalg.norm(short, axis=1) == pytest.approx(1, abs=1e-3)
    cut = whole[:, :32] / np.linalg.norm(whole[:, :32], axis=1, keepdims=True)
    assert short == pytest.approx(cut, abs=1e-4)


def test_other_sizes_of_vectors_are_refused(served: Served) -> None:
    with pytest.raises(RequestError, match="33"):
        served.vectors("braid-embed", TEXTS, 33)


def test_questions_and_documents_have_prompts_of_their_own(served: Served) -> None:
    plain = served.vectors("braid-embed", ["query: a river", "document: a river"])
    asked = served.vectors("braid-embed", ["a river"], purpose="query")
    told = served.vectors("braid-embed", ["a river"], purpose="document")
    assert np.concatenate([asked, told]) == pytest.approx(plain, abs=1e-4)
