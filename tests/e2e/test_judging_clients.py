"""OpenAI's client for decisions and moderations, Hugging Face's for embeddings, and requests of dify and ragflow."""

from __future__ import annotations

import httpx
import numpy as np
import openai
import pytest
from closed_clients import closed_later
from huggingface_hub import InferenceClient

TEXT = "The match ended in a draw after the last goal."
TEXTS = ["The capital of France is Paris.", "Bread is made of flour.", "x"]
TOPICS = ("sport", "weather", "food")
QUESTIONS = [
    {"type": "predicate", "name": "goal", "instructions": "A goal was scored."},
    {"type": "choice", "instructions": "What is it about?", "choices": [{"value": each} for each in TOPICS]},
    {"type": "score", "instructions": "How sad is it?", "levels": [{"label": "not"}, {"label": "very"}]},
]
KINDS = ["predicate", "choice", "score"]


@pytest.fixture(scope="module")
def client(demo):
    return closed_later(openai.OpenAI(base_url=f"{demo.url}/v1", api_key="none"))


@pytest.fixture(scope="module")
def web(demo):
    with httpx.Client(base_url=demo.url, timeout=60) as session:
        yield session


@pytest.fixture(scope="module")
def wanted(web):
    """The vectors of the texts."""
    reply = web.post("/v1/embeddings", json={"model": "braid-embed", "input": TEXTS}).json()
    return np.array([each["embedding"] for each in reply["data"]])


@pytest.mark.parametrize("model", ["braid-demo", "braid-rerank"])
def test_questions_of_each_kind(client, model):
    decision = client.decisions.create(model=model, input=TEXT, questions=QUESTIONS)
    predicate, choice, score = decision.answers
    assert [answer.type for answer in decision.answers] == KINDS
    assert (predicate.name, choice.name) == ("goal", None)
    assert 0 <= predicate.probability <= 1
    assert choice.choice in TOPICS
    assert sum(probability.probability for probability in choice.probabilities) == pytest.approx(1)
    assert [probability.label for probability in score.probabilities] == ["not", "very"]
    assert score.score == pytest.approx(score.probabilities[1].probability)
    assert decision.usage.total_tokens == decision.usage.input_tokens + decision.usage.output_tokens


def test_a_classifier_refuses_what_its_labels_are_not(client):
    decision = client.decisions.create(model="braid-topics", input=TEXT, questions=QUESTIONS[2:])
    assert [answer.type for answer in decision.answers] == ["refusal"]


def test_questions_share_the_input(client):
    asked = [{"type": "predicate", "instructions": f"It rained on day {day}."} for day in range(5)]
    decision = client.decisions.create(model="braid-demo", input="It rained. " * 80, questions=asked)
    assert decision.usage.input_tokens_details.cached_tokens > 0


def test_no_demo_model_moderates(client):
    with pytest.raises(openai.NotFoundError, match="moderate"):
        client.moderations.create(input=TEXT)


def test_hugging_faces_client(demo, wanted):
    hub = InferenceClient(model=demo.url, token="none")
    assert hub.feature_extraction(TEXTS[0], normalize=True, truncate=True) == pytest.approx(
        wanted[:1], abs=1e-4
    )
    alike = hub.sentence_similarity(TEXTS[0], other_sentences=TEXTS[:2])
    assert alike == pytest.approx((wanted[:2] @ wanted[0]).tolist(), abs=1e-4)


def test_requests_of_ragflow_and_dify(web, wanted):
    asked = {"query": "What is the capital of France?", "texts": TEXTS}
    ranked = web.post(
        "/rerank", json={**asked, "model": "braid-rerank", "raw_scores": False, "truncate": True}
    )
    assert ranked.json()[0]["index"] == 0
    assert web.post("/embed", json={"inputs": TEXTS[0]}).json() == pytest.approx(wanted[:1], abs=1e-4)
    info = web.get("/info").json()
    assert {*info["model_type"]} == {"embedding"}
    assert info["max_input_length"] == 256
    (tokens,) = web.post("/tokenize", json={"model": "braid-embed", "inputs": TEXTS[0]}).json()
    token = tokens[1]
    assert TEXTS[0].encode()[token["start"] : token["stop"]].decode() == token["text"]
