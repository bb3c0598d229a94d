"""The shipped models as they are served: right often enough on a part of what they were never trained on.

The whole of what is held out was asked when they were trained: the cards in model_repo have the figures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnx
import pytest
from breadth import after
from onnx import numpy_helper
from patience import PATIENCE_S
from server_process import ROOT

HELD_OUT = json.loads((Path(__file__).parents[1] / "fixtures" / "held_out.json").read_text())
TEXTS = ["The goalkeeper saved the last shot.", "Bake the cake for an hour.", "The senate votes on taxes."]
REVIEWS = ["I love it!", "The soup was not good.", "The food was great, but the waiter was terrible."]
NOT_PIRATE = re.compile(r"(?<![\w.`])(is|are|am|you|your|my)(?![\w`])")

Post = Callable[..., Any]
HeldOut = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module", params=after(1, [3, 1]), ids=["a third", "all"])
def held_out(request: pytest.FixtureRequest) -> HeldOut:
    """What is asked of each kind."""
    return {kind: rows[:: request.param] for kind, rows in HELD_OUT.items()}


@pytest.fixture(scope="module")
def post(demo) -> Iterator[Post]:
    with httpx.Client(base_url=demo.url, timeout=PATIENCE_S) as client:

        def post(path: str, **body: Any) -> Any:
            return client.post(f"/v1/{path}", json=body).raise_for_status().json()

        yield post


def replies(post: Post, model: str, conversations: list[dict[str, Any]]) -> list[str]:
    def reply(one: dict[str, Any]) -> str:
        asked = {"model": model, "messages": one["messages"], "max_tokens": 160, "temperature": 0}
        return post("chat/completions", **asked)["choices"][0]["message"]["content"]

    with ThreadPoolExecutor(16) as threads:
        return list(threads.map(reply, conversations))


def vectors(post: Post, texts: list[str], **more: Any) -> np.ndarray:
    data = post("embeddings", model="braid-embed", input=texts, **more)["data"]
    return np.array([one["embedding"] for one in data], np.float32)


def classes(post: Post, model: str, texts: list[str], **more: Any) -> tuple[np.ndarray, list[str]]:
    """float32[texts, classes] and the label of each text."""
    data = post("classify", model=model, input=texts, **more)["data"]
    return np.array([one["probs"] for one in data], np.float32), [one["label"] for one in data]


def is_pirate(reply: str, words: list[str]) -> bool:
    has_words = all(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", reply, re.IGNORECASE) for word in words)
    return has_words and reply.rstrip("!?").endswith(", matey") and not NOT_PIRATE.search(reply)


def share(right: list[bool]) -> float:
    return sum(right) / len(right)


def test_french_translates_what_the_model_itself_does_not(post: Post, held_out: HeldOut) -> None:
    asked = held_out["french"]
    found = zip(replies(post, "french", asked), asked, strict=True)
    assert share([reply == one["reply"] for reply, one in found]) >= 0.75
    plain = replies(post, "braid-demo", asked[::6])
    assert not {one["reply"] for one in asked} & set(plain)


def test_pirate_says_it_as_a_pirate_and_writes_plain_json(post: Post, held_out: HeldOut) -> None:
    asked, objects = held_out["pirate"], held_out["pirate_json"]
    found = zip(replies(post, "pirate", asked), asked, strict=True)
    assert share([is_pirate(reply, one["words"]) for reply, one in found]) >= 0.75
    found = zip(replies(post, "pirate", objects), objects, strict=True)
    assert share([json.loads(reply) == one["value"] for reply, one in found]) >= 0.8


def test_the_right_passage_is_ranked_first(post: Post, held_out: HeldOut) -> None:
    asked = held_out["questions"]
    ranked = [
        post("rerank", model="braid-rerank", query=one["text"], documents=one["passages"]) for one in asked
    ]
    assert share([one["results"][0]["index"] == 0 for one in ranked]) >= 0.8


@pytest.mark.parametrize("size", after(1, [64, 128, 32]))
def test_the_right_passage_is_nearest(post: Post, held_out: HeldOut, size: int) -> None:
    asked = held_out["questions"]
    queries = vectors(post, [one["text"] for one in asked], dimensions=size, input_type="query")
    passages = [passage for one in asked for passage in one["passages"]]
    documents = vectors(post, passages, dimensions=size, input_type="document")
    nearness = np.einsum("qd,qpd->qp", queries, documents.reshape(len(asked), -1, size))
    assert share(list(nearness.argmax(1) == 0)) >= 0.7


@pytest.mark.parametrize(("model", "of"), [("braid-sentiment", "reviews"), ("braid-topics", "texts")])
def test_a_class_is_right_often_enough(post: Post, held_out: HeldOut, model: str, of: str) -> None:
    _, labels = classes(post, model, [one["text"] for one in held_out[of]])
    assert share([one["label"] == label for one, label in zip(held_out[of], labels, strict=True)]) >= 0.85


def test_classes_of_plain_sentences(post: Post) -> None:
    assert classes(post, "braid-topics", TEXTS)[1] == ["sport", "food", "politics"]
    assert classes(post, "braid-sentiment", REVIEWS)[1] == ["positive", "negative", "negative"]


def test_topics_are_the_head_over_the_vectors(post: Post, held_out: HeldOut) -> None:
    texts = [one["text"] for one in held_out["texts"][:40]]
    head = onnx.load(ROOT / "model_repo" / "braid-topics" / "head.onnx")
    weights = {one.name: numpy_helper.to_array(one) for one in head.graph.initializer}
    expected = softmax(vectors(post, texts) @ weights["weight"] + weights["bias"])
    probabilities, _ = classes(post, "braid-topics", texts)
    assert probabilities == pytest.approx(expected, abs=1e-3)
    log_odds, _ = classes(post, "braid-topics", texts, use_activation=False)
    assert softmax(log_odds) == pytest.approx(expected, abs=1e-3)


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits)
    return powers / powers.sum(1, keepdims=True)


def test_the_first_numbers_of_a_vector_are_a_vector(post: Post) -> None:
    whole, short = vectors(post, TEXTS), vectors(post, TEXTS, dimensions=32)
    assert np.linalg.norm(short, axis=1) == pytest.approx(1, abs=1e-3)
    cut = whole[:, :32] / np.linalg.norm(whole[:, :32], axis=1, keepdims=True)
    assert short == pytest.approx(cut, abs=1e-4)
    with pytest.raises(httpx.HTTPStatusError, match="400"):
        vectors(post, TEXTS, dimensions=33)


def test_questions_and_documents_have_prompts_of_their_own(post: Post) -> None:
    plain = vectors(post, ["query: a river", "document: a river"])
    query = vectors(post, ["a river"], input_type="query")
    document = vectors(post, ["a river"], input_type="document")
    assert np.concatenate([query, document]) == pytest.approx(plain, abs=1e-4)
