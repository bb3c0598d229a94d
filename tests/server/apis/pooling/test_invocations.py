"""POST invocations with models that generate no text."""

from __future__ import annotations

import pytest
from pooled_calls import PooledPipeline

from pipelines.worker.model_table import ModelCard
from server.apis.generation.chat_endpoint import ChatCompletionsEndpoint
from server.apis.generation.completions_endpoint import CompletionsEndpoint
from server.apis.operations.invocations import select_endpoint
from server.apis.pooling.embeddings_endpoint import EmbeddingsEndpoint
from server.apis.pooling.rerank_endpoint import RerankEndpoint
from server.apis.pooling.score_endpoint import ScoreEndpoint

INPUT = {"input": "a"}
TALK = {"messages": [{"role": "user", "content": "a"}]}


@pytest.mark.parametrize(
    ("task", "body", "prefix"),
    [
        ("embed", INPUT, "embd-"),
        ("embed", TALK, "embd-"),
        ("token_embed", INPUT, "pooling-"),
        ("classify", INPUT, "classify-"),
        ("classify", TALK, "classify-"),
        ("rerank", INPUT, "classify-"),
    ],
)
def test_the_models_task_tells_the_endpoint(task, body, prefix, make_rig):
    rig = make_rig(PooledPipeline(task))
    for model in ({}, {"model": "tiny"}):
        answer = rig.post("/invocations", {**body, **model})
        assert answer.status == 200, answer.body
        assert answer.json["id"].startswith(prefix)


@pytest.mark.parametrize(
    ("body", "endpoint"),
    [
        ({"query": "a", "documents": ["b"]}, RerankEndpoint),
        ({"queries": "a", "documents": ["b"]}, ScoreEndpoint),
        ({"text_1": "a", "text_2": "b"}, ScoreEndpoint),
        ({"data_1": "a", "data_2": "b"}, ScoreEndpoint),
        (INPUT, EmbeddingsEndpoint),
        (TALK, ChatCompletionsEndpoint),
        ({"prompt": "a"}, CompletionsEndpoint),
    ],
    ids=str,
)
def test_where_tasks_differ_the_body_tells_it(body, endpoint):
    assert select_endpoint(body, None) is endpoint


def test_a_chat_may_bring_documents():
    assert select_endpoint({**TALK, "documents": [], "query": "a"}, "chat") is ChatCompletionsEndpoint


def test_among_several_models_the_only_one_that_can_is_meant(make_rig):
    rig = make_rig(PooledPipeline())
    rig.services.catalogue.models.append(ModelCard("other", 1, 1, 512, "ready", [], "chat"))
    assert rig.post("/invocations", INPUT).json["id"].startswith("embd-")


@pytest.mark.parametrize("model", ["nope", 5, ["tiny"]], ids=str)
def test_a_wrong_model_is_refused(model, make_rig):
    answer = make_rig(PooledPipeline()).post("/invocations", {**INPUT, "model": model})
    assert (answer.status, answer.error["param"]) == (404 if model == "nope" else 400, "model")
