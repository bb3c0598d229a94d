"""The endpoints over real graphs: request nodes, the engine and the wire, around an encoder that hashes."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from functools import partial

import httpx
import numpy as np
import pytest
from breadth import after
from broken_bodies import BROKEN
from fake_decoder import byte_tokenizer
from fake_encoder import FAKE_BATCHER, row_of, use_fake_encoders, write_fake_encoder
from live_app import answers, live_app
from openai import AsyncOpenAI, NotFoundError
from patience import PATIENCE_S
from random_bodies import random_body

from pipelines.inference.engine.batching.batch_engine import BatchEngine

PATHS = ["/v1/embeddings", "/v3/embeddings", "/pooling", "/classify"]
LAST = "hidden: {type: encoder, from: batch, path: encoder.fake}"
MODELS = {
    "vectors": (FAKE_BATCHER, {"size": 4}),
    "nested": (FAKE_BATCHER + "  cut: {type: matryoshka, from: rows, dimensions: [2, 4]}\n", {"size": 8}),
    "tokens": (
        FAKE_BATCHER.replace("task: embed", "task: token_embed").replace(
            LAST, LAST + "\n      each: {type: pool, from: hidden, how: none}"
        ),
        {"size": 4, "per_token": True},
    ),
    "moods": (
        FAKE_BATCHER.replace("task: embed", "task: classify")
        + "  classes: {type: label, from: rows, labels: labels.json}\n",
        {"size": 3},
    ),
    "pairs": (
        FAKE_BATCHER.replace("task: embed", "task: rerank").replace(
            "tokens: {type: tokenize, from: request.prompts,", "tokens: {type: tokenize_pairs, from: request,"
        )
        + "  ranking: {type: rank, from: {scores: rows, pairs: tokens}}\n",
        {"size": 1},
    ),
}
"""Name → its graph, and what its encoder is."""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    for name, (graph, fake) in MODELS.items():
        write_fake_encoder(folder / name, graph, **fake)
    (folder / "moods/labels.json").write_text('["sad", "calm", "glad"]')
    return folder


@pytest.fixture
def ask(models, monkeypatch):
    """What the server answers each (path, body)."""
    use_fake_encoders(monkeypatch)
    return lambda *asked: answers(models, asked)


def ids(text):
    return byte_tokenizer().encode(text).ids


def test_each_model_gives_its_own(ask):
    texts = ["a", "some longer text", "bc"]
    asked = [
        ("vectors", "/v1/embeddings"),
        ("tokens", "/pooling"),
        ("moods", "/classify"),
        ("pairs", "/classify"),
    ]
    answers = ask(*((path, {"model": name, "input": texts}) for name, path in asked))
    assert [answer.status for answer in answers] == [200] * 4, [answer.body for answer in answers]
    vectors, tokens, moods, pairs = (answer.json["data"] for answer in answers)
    assert [vector["embedding"] for vector in vectors] == [row_of(ids(text)).tolist() for text in texts]
    for token, text in zip(tokens, texts, strict=True):
        whole = ids(text)
        assert token["data"] == [row_of(whole[: end + 1]).tolist() for end in range(len(whole))]
    rows = [row_of(ids(text), size=3) for text in texts]
    assert [token["probs"] for token in moods] == [row.tolist() for row in rows]
    assert [token["label"] for token in moods] == [["sad", "calm", "glad"][row.argmax()] for row in rows]
    assert [pair["probs"] for pair in pairs] == [row_of(ids(text), size=1).tolist() for text in texts]
    usage = answers[0].json["usage"]
    assert usage["prompt_tokens"] == usage["total_tokens"] == sum(len(ids(text)) for text in texts)


ASKED = [
    ("/v1/embeddings", {"model": "vectors", "input": "a"}),
    ("/pooling", {"model": "tokens", "input": "a"}),
    ("/classify", {"model": "moods", "input": "a"}),
    ("/v1/rerank", {"model": "pairs", "query": "a", "documents": ["b"]}),
    ("/v1/score", {"model": "pairs", "queries": "a", "documents": ["b"]}),
    ("/v2/models/vectors/generate", {"text_input": "a"}),
    ("/v2/models/pairs/generate", {"text_input": "a", "documents": ["b"]}),
]


def test_an_engine_knows_whose_texts_it_gets(models, monkeypatch):
    use_fake_encoders(monkeypatch)
    origins, submit = [], BatchEngine.submit

    def noted(self, key, request):
        origins.append(request.origin)
        submit(self, key, request)

    monkeypatch.setattr(BatchEngine, "submit", noted)

    async def scene(client):
        for path, body in ASKED:
            for session in ("one", "two"):
                answer = await client.post(path, body, **{"X-Session-ID": session})
                assert answer.status == 200, (path, answer.body)

    app = live_app(models)
    app.run(scene(app.client))
    tenants = [origin.tenant for origin in origins]
    assert tenants == tenants[:2] * len(ASKED)
    assert "" not in tenants
    assert tenants[0] != tenants[1]
    assert all(origin.name for origin in origins)


def test_a_thousand_texts_come_back_in_order(ask):
    texts = [f"text {i} " * (i % 5 + 1) for i in range(1000)]
    numbers, coded = ask(
        ("/v1/embeddings", {"model": "vectors", "input": texts}),
        ("/v1/embeddings", {"model": "vectors", "input": texts, "encoding_format": "base64"}),
    )
    wanted = np.array([row_of(ids(text)) for text in texts])
    assert [each["embedding"] for each in numbers.json["data"]] == wanted.tolist()
    packed = b"".join(base64.b64decode(each["embedding"]) for each in coded.json["data"])
    np.testing.assert_array_equal(np.frombuffer(packed, np.float32).reshape(wanted.shape), wanted)


def test_truncation_and_activation_reach_the_model(ask):
    body = {"model": "vectors", "input": [list(range(10, 20))], "truncate_prompt_tokens": 3}
    right, left, plain = ask(
        ("/v1/embeddings", body),
        ("/v1/embeddings", {**body, "truncation_side": "left"}),
        ("/v1/embeddings", {**body, "use_activation": False}),
    )
    assert [answer.json["data"][0]["embedding"] for answer in (right, left, plain)] == [
        row_of([10, 11, 12]).tolist(),
        row_of([17, 18, 19]).tolist(),
        row_of([10, 11, 12], activate=False).tolist(),
    ]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/embeddings", {"model": "moods", "input": "a"}, 404, "models that do: nested, vectors"),
        ("/classify", {"model": "vectors", "input": "a"}, 404, "models that do: moods, pairs"),
        ("/v1/completions", {"prompt": "a"}, 404, "There is no model that can generate text; models: "),
        ("/v1/embeddings", {"model": "vectors", "input": "a", "dimensions": 2}, 400, "Matryoshka"),
        ("/v1/embeddings", {"model": "nested", "input": "a", "dimensions": 3}, 400, "[2, 4], got 3"),
        ("/v1/embeddings", {"model": "vectors", "input": [7, 999]}, 400, "Token id 999 is out of vocabulary"),
        (
            "/v1/embeddings",
            {"model": "vectors", "input": "a" * 65},
            400,
            "maximum context length is 64 tokens",
        ),
        (
            "/v3/embeddings",
            {"model": "vectors", "input": "a" * 65},
            400,
            "Input length 65 longer than allowed 64",
        ),
        (
            "/v1/embeddings",
            {"model": "vectors", "messages": [{"role": "user", "content": "a"}]},
            400,
            "chat_template",
        ),
        (
            "/v1/embeddings",
            {"model": "vectors", "input": "a", "truncate_prompt_tokens": 65},
            400,
            "truncate_prompt_tokens value is greater than max_model_len",
        ),
    ],
)
def test_what_a_model_cannot_do_is_said(path, body, status, words, ask):
    [answer] = ask((path, body))
    assert answer.status == status, answer.body
    assert words in str(answer.error)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/pooling", "/v3/embeddings"])
def test_a_reply_that_would_be_too_large_is_refused_before_the_model_runs(path, ask, monkeypatch):
    monkeypatch.setattr("pipelines.inference.engine.batching.text_checks.MAX_ANSWER_VALUES", 8)
    most, more = ask(*((path, {"model": "vectors", "input": ["a"] * num}) for num in (2, 3)))
    assert (most.status, more.status) == (200, 400)
    assert b"the reply would hold 12 numbers: 4 numbers for each text" in more.body


def test_openais_client(models, monkeypatch):
    """What its `embeddings.create` may be given, and what it makes of base64, which it asks for itself."""
    use_fake_encoders(monkeypatch)

    async def scenario():
        http = httpx.AsyncClient(transport=httpx.ASGITransport(served.app))
        client = AsyncOpenAI(base_url="http://test/v1", api_key="x", http_client=http)
        create = partial(client.embeddings.create, model="nested", input=["a", "bc"])
        same = [await create(user="me"), await create(encoding_format="float")]
        cut = await create(dimensions=2, extra_body={"truncate_prompt_tokens": 1, "request_id": "mine"})
        with pytest.raises(NotFoundError, match="does not give embeddings"):
            await create(model="moods")
        return [[row.embedding for row in reply.data] for reply in (*same, cut)], cut.usage

    served = live_app(models)
    (coded, plain, cut), usage = served.run(asyncio.wait_for(scenario(), PATIENCE_S))
    assert coded == plain == [row_of(ids(text), size=8).tolist() for text in ("a", "bc")]
    first = [row_of(ids(text)[:1], size=8)[:2] for text in ("a", "b")]
    assert cut == [pytest.approx((row / np.linalg.norm(row)).tolist()) for row in first]
    assert usage.prompt_tokens == 2


@pytest.mark.parametrize("num_random", after(1, [12, 40]))
def test_no_body_breaks_a_model(ask, num_random):
    rng = random.Random(5)
    asked = [(path, body) for path in PATHS for body in BROKEN.values()]
    for path in PATHS:
        for name in MODELS:
            asked += [(path, random_body(path, rng) | {"model": name}) for _ in range(num_random)]
    answers = ask(*asked)
    for (_, body), answer in zip(asked, answers, strict=True):
        assert answer.status < 500, (
            json.dumps(body)[:300] if isinstance(body, dict) else body[:99],
            answer.body,
        )
    assert sum(answer.status == 200 for answer in answers) > 2 * num_random
