"""A real server with the weights of all-MiniLM-L6-v2 gives the embeddings of sentence-transformers."""

from __future__ import annotations

import asyncio
import time

import httpx
import numpy as np
import openai
import pytest
import yaml
from minilm import MAX_TOKENS, SIZE, Reference, needs_minilm, write_models
from patience import PATIENCE_S
from server_process import ServerProcess

from tools.client.api_server import ApiServer
from tools.lab.bench.pooling.texts import make_texts
from tools.retrieval.__main__ import QUESTIONS, embed, nearest

pytestmark = [needs_minilm, pytest.mark.slow, pytest.mark.breadth]

NEAR = {"exact": 0.999999, "plain": 0.9999, "int8": 0.995}
"""Model → the least cosine of its vectors with those of sentence-transformers."""
CLOSE = 1e-4
SHORT = ["a", "How far away is the moon?", "¿Qué hora es?", "日本語", "x" * 300, " "]
LONG = [" ".join(make_texts(6, seed=seed)) for seed in range(3)]
"""Cut to what the model reads."""


@pytest.fixture(scope="module")
def texts():
    """Of all lengths; sixty-four."""
    return [*SHORT, *make_texts(55, seed=3), *LONG]


@pytest.fixture(scope="module")
def reference():
    return Reference()


@pytest.fixture(scope="module")
def expected(reference, texts):
    assert min(map(reference.num_tokens, LONG)) > MAX_TOKENS
    return reference.vectors(texts)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    models = tmp_path_factory.mktemp("minilm") / "models"
    write_models(models)
    with ServerProcess(models) as running:
        running.all_ready()
        yield running


def body(model, texts, **more):
    return {"model": model, "input": texts, "truncate_prompt_tokens": -1, **more}


def vectors(server, bodies, together=True):
    """An array of embeddings for each body, requested one after the other or all together."""

    async def requested(client, request_body):
        answer = await client.post("/v1/embeddings", json=request_body)
        assert answer.status_code == 200, answer.text
        return np.array([entry["embedding"] for entry in answer.json()["data"]])

    async def scene():
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S, limits=limits) as client:
            if together:
                return await asyncio.gather(*(requested(client, request_body) for request_body in bodies))
            return [await requested(client, request_body) for request_body in bodies]

    return asyncio.run(scene())


def cosines(found, expected):
    return (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)


@pytest.mark.parametrize("model", NEAR)
def test_vectors_are_those_of_sentence_transformers(model, server, texts, expected):
    (found,) = vectors(server, [body(model, texts)])
    assert found.shape == (len(texts), SIZE)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=CLOSE)
    assert cosines(found, expected).min() >= NEAR[model]
    if model == "exact":
        np.testing.assert_allclose(found, expected, atol=CLOSE)


def test_a_text_has_the_same_vector_alone_and_beside_others(server, texts):
    (together,) = vectors(server, [body("exact", texts)])
    alone = vectors(server, [body("exact", text) for text in texts], together=False)
    np.testing.assert_allclose(np.concatenate(alone), together, atol=CLOSE)


def test_sixty_four_clients_each_have_their_own_vector(server, texts, expected):
    found = vectors(server, [body("exact", [text]) for text in texts])
    np.testing.assert_allclose(np.concatenate(found), expected, atol=CLOSE)


def test_openai_s_client_reads_numbers_and_base64_alike(server, texts, expected):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        requested = {"model": "exact", "input": texts[:10]}
        written = client.embeddings.create(**requested, encoding_format="float")
        packed = client.embeddings.create(**requested)  # it asks for base64, and unpacks that itself
    for reply in (written, packed):
        found = np.array([entry.embedding for entry in reply.data])
        np.testing.assert_allclose(found, expected[:10], atol=CLOSE)
    assert written.usage == packed.usage


def test_a_text_that_is_too_long_is_refused_unless_it_may_be_cut(server):
    answer = httpx.post(
        f"{server.url}/v1/embeddings", json={"model": "exact", "input": LONG[0]}, timeout=PATIENCE_S
    )
    assert answer.status_code == 400
    assert f"maximum context length is {MAX_TOKENS} tokens" in answer.text


def test_each_question_finds_its_passage_first(server):
    pairs = yaml.safe_load(QUESTIONS.read_text(encoding="utf-8"))
    requested = [pair["question"] for pair in pairs] + [pair["passage"] for pair in pairs]
    found = embed(ApiServer(server.url), "int8", requested)
    questions, passages = found[: len(pairs)], found[len(pairs) :]
    assert [nearest(question, passages)[0] for question in questions] == list(range(len(pairs)))


def computed(server, model):
    return server.metric("vllm:prompt_tokens_total", model)


def settled(server, model):
    """The same, when the last request is in it: metrics are written a moment after an answer."""
    looks = [computed(server, model)]
    while len(looks) < 3 or len(set(looks[-3:])) > 1:
        time.sleep(0.1)
        looks.append(computed(server, model))
    return looks[-1]


def padded(server, model):
    return server.metric("braid:padding_tokens_total", model)


@pytest.mark.parametrize("count", [250, 1000])
def test_padding_of_many_texts_is_less_than_a_tenth(server, count):
    before, padding = settled(server, "int8"), padded(server, "int8")
    answer = httpx.post(
        f"{server.url}/v1/embeddings", json=body("int8", make_texts(count, seed=5)), timeout=2 * PATIENCE_S
    )
    num_tokens = answer.json()["usage"]["prompt_tokens"]
    server.wait_for(lambda: computed(server, "int8") - before == num_tokens)
    padding = padded(server, "int8") - padding
    assert 0 < padding < 0.1 * (num_tokens + padding)


def test_a_disconnected_client_removes_a_thousand_waiting_texts(server):
    texts = [" ".join(make_texts(6, seed=seed)) for seed in range(1000)]
    before = settled(server, "exact")

    async def scene():
        async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S) as client:
            leaving = asyncio.create_task(client.post("/v1/embeddings", json=body("exact", texts)))
            await asyncio.to_thread(server.wait_for, lambda: waiting(server) > 100)
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)

    asyncio.run(scene())
    server.wait_for(lambda: waiting(server) == server.metric("vllm:num_requests_running", "exact") == 0)
    assert computed(server, "exact") - before < 1000 * MAX_TOKENS / 2


def waiting(server):
    return server.metric("vllm:num_requests_waiting", "exact")
