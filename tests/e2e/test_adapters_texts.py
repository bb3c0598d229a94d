"""Adapters of models that embed, rank and classify, in real processes: every path, OpenAI's client, reloads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import openai
import pytest
from adapted_encoder import vector_of
from patience import PATIENCE_S
from peft_adapters import write_adapter

BASES = {"vectors", "ranks", "moods", "plain"}
TEXTS = ["a text", "another, longer text", "x"]


@pytest.fixture
def served(small):
    return small


@pytest.fixture
def folders(small):
    """The name of each model that gives vectors → the folder of its adapter."""
    adapters = small.models / "vectors" / "adapters"
    own = {name: adapters / name for name in ("legal", "medical")}
    return {"vectors": None, **own, "outside": small.models.parent / "elsewhere"}


def post(served, path, **body):
    return httpx.post(f"{served.url}{path}", json=body, timeout=PATIENCE_S)


def given(served, path, **body):
    reply = post(served, path, **body)
    assert reply.status_code == 200, f"{path}: {reply.text}"
    return reply.json()


def test_adapters_are_models_with_a_parent(served, folders):
    listed = {
        card["id"]: card for card in httpx.get(f"{served.url}/v1/models", timeout=PATIENCE_S).json()["data"]
    }
    assert {name: card["parent"] for name, card in listed.items() if {name, card["parent"]} & BASES} == {
        **dict.fromkeys(["vectors", "ranks", "moods", "plain"]),
        "outside": "vectors",
        "legal": "vectors",
        "medical": "vectors",
        "strict": "ranks",
        "glad": "moods",
    }
    assert listed["legal"]["root"] == str(folders["legal"])


def test_vectors_of_openais_client_are_those_of_merged_models(served, folders):
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="-", max_retries=0, timeout=PATIENCE_S) as client:

        def one(name):
            reply = client.embeddings.create(model=name, input=TEXTS, encoding_format="float")
            return reply.model, [row.embedding for row in reply.data]

        names = [*folders, *(f"vectors:{name}" for name in folders if name != "vectors")] * 6
        with ThreadPoolExecutor(8) as threads:
            replies = list(threads.map(one, names))
    for name, (replied, vectors) in zip(names, replies, strict=True):
        own = name.rpartition(":")[2]
        assert replied == own
        expected = [vector_of(text, folders[own]) for text in TEXTS]
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("path", "base", "adapter", "body"),
    [
        ("/v3/embeddings", "vectors", "legal", {"input": "a"}),
        ("/pooling", "vectors", "medical", {"input": "a"}),
        ("/score", "vectors", "legal", {"text_1": "a", "text_2": "b"}),
        ("/v2/embed", "vectors", "legal", {"texts": ["a"], "input_type": "classification"}),
        ("/score", "ranks", "strict", {"text_1": "a", "text_2": "b"}),
        ("/rerank", "ranks", "strict", {"query": "a", "documents": ["b", "c"]}),
        ("/v3/rerank", "ranks", "strict", {"query": "a", "documents": ["b", "c"]}),
        ("/v2/rerank", "ranks", "strict", {"query": "a", "documents": ["b", "c"]}),
        ("/classify", "moods", "glad", {"input": "a"}),
    ],
)
def test_every_path_that_pools_takes_the_names(served, path, base, adapter, body):
    def numbers(model):
        reply = given(served, path, model=model, **body)
        kept = {key: reply[key] for key in ("data", "results", "embeddings") if key in reply}
        assert kept
        return kept

    assert numbers(adapter) == numbers(f"{base}:{adapter}") != numbers(base)


def test_names_that_are_not_there_are_a_404_and_broken_ones_a_400(served):
    assert post(served, "/v1/embeddings", model="nobody", input="a").status_code == 404
    assert post(served, "/v1/embeddings", model="strict", input="a").status_code == 404
    refused = post(served, "/v1/embeddings", model="dora", input="a")
    assert (refused.status_code, "DoRA" in refused.text) == (400, True)
    assert post(served, "/v1/chat/completions", model="legal", messages=[]).status_code in (400, 404)


def test_a_model_whose_adapters_change_what_it_cannot_is_served_without_them(served):
    reply = given(served, "/v1/embeddings", model="plain", input=TEXTS)
    for text, found in zip(TEXTS, reply["data"], strict=True):
        np.testing.assert_allclose(found["embedding"], vector_of(text), rtol=0, atol=1e-5)
    refused = post(served, "/v1/embeddings", model="tail", input="a")
    assert refused.status_code == 400
    assert "embed_tokens.lora_embedding_A: embed_tokens is not prepared for adapters" in refused.text


def test_clients_load_and_unload(served, folders):
    path = write_adapter(folders["legal"].with_name("late"), 9)
    load = {"lora_name": "late", "lora_path": "late"}
    assert post(served, "/v1/load_lora_adapter", **load).status_code == 400  # of which of three models?
    assert post(served, "/v1/load_lora_adapter", base_model_name="vectors", **load).status_code == 200
    for seed in (9, 10):
        [row] = given(served, "/v1/embeddings", model="late", input=["a"])["data"]
        np.testing.assert_allclose(row["embedding"], vector_of("a", path), rtol=0, atol=1e-5)
        write_adapter(path, seed + 1)
        again = {**load, "base_model_name": "vectors", "load_inplace": True}
        assert post(served, "/v1/load_lora_adapter", **again).status_code == 200
    assert post(served, "/v1/unload_lora_adapter", lora_name="late").status_code == 200
    assert post(served, "/v1/embeddings", model="late", input="a").status_code == 404
