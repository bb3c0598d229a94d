"""No body, however broken, gets a 5xx from score, rerank and Cohere's embed, and every refusal says why."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pooled_calls import TASKS, PooledPipeline
from test_broken_pooling import bodies

from pipelines.nodes.tokenize import Tokenize
from server.finding import EMBEDDING, SCORING

PATHS = ["/score", "/v3/score", "/v1/rerank", "/v3/rerank", "/v1/embed", "/v2/embed"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("task", TASKS)
def test_every_body_is_answered(path, task, make_rig, tokenizer):
    node = object.__new__(Tokenize)
    node.tokenizer = tokenizer
    rig = make_rig(PooledPipeline(task))
    rig.pipeline.lines = [SimpleNamespace(node=node)]

    async def scenario(client):
        return [(body, await client.post(path, body)) for body in bodies(path)]

    answers = rig.run(scenario)
    for body, answer in answers:
        assert answer.status < 500, (body[:300], answer.body)
        if answer.status >= 400:
            error = answer.error
            assert error if isinstance(error, str) else error["message"], body[:300]
    able = EMBEDDING if path.endswith("embed") else SCORING
    assert any(answer.status == 200 for _, answer in answers) == (task in able.tasks)
