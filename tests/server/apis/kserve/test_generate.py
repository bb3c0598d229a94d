"""Triton's generate extension: the same text as completions, the same vectors as embeddings."""

from __future__ import annotations

import json

import pytest

PARAMETERS = {"max_tokens": 12, "temperature": 0}


def completion(ask, prompt, model="text", **parameters):
    body = {"model": model, "prompt": prompt, **parameters}
    return ask.post("/v1/completions", json=body).json()["choices"][0]["text"]


@pytest.mark.parametrize("path", ["text", "text/versions/1", "asks"])
def test_the_text_is_that_of_completions(ask, path):
    model = path.partition("/")[0]
    wanted = completion(ask, "hello", model, **PARAMETERS)
    reply = {"model_name": model, "model_version": "1", "text_output": wanted}
    body = {"text_input": "hello", "parameters": PARAMETERS}
    assert ask.post(f"/v2/models/{path}/generate", json=body).json() == reply
    assert ask.post(
        f"/v2/models/{path}/generate", json={"text_input": "hello", "id": "x", **PARAMETERS}
    ).json() == {
        **reply,
        "id": "x",
    }


def test_a_stream_holds_the_same_text(ask):
    reply = ask.post(
        "/v2/models/text/generate_stream", json={"text_input": "hello", "parameters": PARAMETERS}
    )
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = [
        json.loads(line.removeprefix("data: ")) for line in reply.text.splitlines() if line.startswith("data")
    ]
    assert "".join(event["text_output"] for event in events) == completion(ask, "hello", **PARAMETERS)
    assert {event["model_name"] for event in events} == {"text"}


def test_infer_takes_and_gives_the_text_as_a_tensor(ask):
    sent = {"name": "text_input", "shape": [1], "datatype": "BYTES", "data": ["hello"]}
    reply = ask.infer("text", {"inputs": [sent], "parameters": PARAMETERS}).json()
    assert reply["outputs"] == [
        {
            "name": "text_output",
            "datatype": "BYTES",
            "shape": [1],
            "data": [completion(ask, "hello", **PARAMETERS)],
        }
    ]
    assert "of BYTES" in ask.infer("text", {"inputs": [sent | {"name": "x"}]}).json()["error"]


def test_vectors_are_those_of_embeddings(ask):
    texts = ["one text", "another"]
    wanted = [
        each["embedding"]
        for each in ask.post("/v1/embeddings", json={"model": "vectors", "input": texts}).json()["data"]
    ]
    reply = ask.post("/v2/models/vectors/generate", json={"text_input": texts}).json()
    for vector, right in zip(reply["embeddings"], wanted, strict=True):
        assert vector == pytest.approx(right, abs=1e-6)


def test_scores_are_those_of_rerank(ask):
    asked = {"query": "How far is the moon?", "documents": ["Bread rises.", "The moon is far away."]}
    found = ask.post("/v1/rerank", json={"model": "ranks", **asked}).json()["results"]
    wanted = [each["relevance_score"] for each in sorted(found, key=lambda each: each["index"])]
    body = {"text_input": asked["query"], "documents": asked["documents"]}
    assert ask.post("/v2/models/ranks/generate", json=body).json()["scores"] == pytest.approx(
        wanted, abs=1e-6
    )


def test_what_a_model_of_text_says_of_itself(ask):
    told = ask.get("/v2/models/text").json()
    assert (told["platform"], told["inputs"], told["outputs"]) == (
        "braid_text",
        [{"name": "text_input", "datatype": "BYTES", "shape": [1]}],
        [{"name": "text_output", "datatype": "BYTES", "shape": [1]}],
    )


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("text/generate", {}, 400, "is not a generate request"),
        ("text/generate", {"text_input": ["a", "b"]}, 400, "must be one text, got 2"),
        ("text/generate", {"text_input": "a", "parameters": {"n": 2}}, 400, "the reply is one text"),
        ("text/generate", {"text_input": "a", "parameters": {"temperature": -1}}, 400, "temperature"),
        ("text/generate_stream", {"text_input": "a", "max_tokens": -1}, 400, "max_tokens"),
        ("detector/generate", {"text_input": "a"}, 404, "its task is infer"),
        ("vectors/generate_stream", {"text_input": "a"}, 404, "does not stream text"),
        ("nope/generate", {"text_input": "a"}, 404, "does not exist"),
    ],
)
def test_what_is_refused(ask, path, body, status, said):
    reply = ask.post(f"/v2/models/{path}", json=body)
    assert (reply.status_code, said in reply.json()["error"]) == (status, True), reply.text
