"""Bodies of text-embeddings-inference that do not fit: each gets that server's error."""

import pytest

RANK = {"query": "q", "texts": ["a", "b"]}
SIMILAR = {"source_sentence": "a", "sentences": ["b"]}
WRONG = [
    ("/embed", {}, 422, "validation"),
    ("/embed", {"inputs": ""}, 400, "empty"),
    ("/embed", {"inputs": []}, 400, "empty"),
    ("/embed", {"inputs": ["a", ""]}, 400, "empty"),
    ("/embed", {"inputs": ["a", []]}, 400, "empty"),
    ("/embed", {"inputs": 5}, 422, "validation"),
    ("/embed", {"inputs": [1.5]}, 422, "validation"),
    ("/embed", {"inputs": [[1, -2]]}, 422, "validation"),
    ("/embed", {"inputs": ["a"] * 16385}, 422, "validation"),
    ("/embed", {"inputs": "a", "truncation_direction": "up"}, 422, "validation"),
    ("/embed", {"inputs": "a", "dimensions": 0}, 422, "validation"),
    ("/embed", {"inputs": [1, 2], "prompt_name": "query"}, 422, "validation"),
    ("/embed", {"inputs": "a", "normalize": "very"}, 422, "validation"),
    ("/embed", b"{", 422, "validation"),
    ("/embed", {"inputs": "a", "model": "no"}, 424, "backend"),
    ("/embed_all", {"inputs": "a"}, 424, "backend"),
    ("/embed_sparse", {"inputs": "a"}, 424, "backend"),
    ("/predict", {"inputs": "a"}, 424, "backend"),
    ("/rerank", {**RANK, "texts": []}, 400, "empty"),
    ("/rerank", {**RANK, "texts": "a"}, 422, "validation"),
    ("/rerank", {"texts": ["a"]}, 422, "validation"),
    ("/similarity", {"inputs": {**SIMILAR, "sentences": []}}, 400, "empty"),
    ("/similarity", {"inputs": {**SIMILAR, "source_sentence": ""}}, 400, "empty"),
    ("/similarity", {"inputs": "a"}, 422, "validation"),
    ("/decode", {"ids": ["a"]}, 422, "validation"),
    ("/", {"texts": ["a"]}, 422, "validation"),
]


@pytest.fixture
def embedder(make_rig):
    from scripted import ScriptedPipeline

    return make_rig(ScriptedPipeline("embed"))


@pytest.mark.parametrize(("path", "body", "status", "word"), WRONG)
def test_a_wrong_body_gets_that_servers_error(embedder, path, body, status, word):
    found = embedder.post(path, body)
    assert (found.status, found.json["error_type"]) == (status, word), found.body
    assert {*found.json} == {"error", "error_type"}
    assert not embedder.pipeline.calls


def test_too_many_inputs_are_said_as_that_server_says_it(embedder):
    found = embedder.post("/embed", {"inputs": ["a"] * 16385})
    assert found.json["error"] == "batch size 16385 > maximum allowed batch size 16384"


def test_a_wrong_content_type(embedder):
    found = embedder.ask("POST", "/embed", body=b"{}", headers={"content-type": "text/plain"})
    assert (found.status, found.json["error_type"]) == (422, "validation")


def test_keys_are_needed(make_rig):
    found = make_rig(api_keys=("secret",)).post("/embed", {"inputs": "a"})
    assert (found.status, found.json["error_type"]) == (401, "unauthorized")


def test_documents_are_ranked_for_others(embedder):
    """The body of rerank is told apart by `texts`."""
    found = embedder.post("/rerank", {"query": "q", "documents": []})
    assert found.error["message"] == "At least one text_pair element must be given"
