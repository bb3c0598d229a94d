"""No body, however broken, gets a 5xx from score, rerank and Cohere's embed, and every refusal says why."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from breadth import after
from pooled_calls import TASKS, PooledPipeline
from test_broken_pooling import answered

from pipelines.nodes.text.tokenizing.text_reader import TextReader
from pipelines.nodes.text.tokenizing.tokenize import Tokenize
from pipelines.worker.model_choice import EMBEDDING, SCORING

PATHS = after(3, ["/score", "/v1/rerank", "/v2/embed", "/v3/score", "/v3/rerank", "/v1/embed"])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("task", TASKS)
def test_every_body_is_answered(path, task, make_rig, tokenizer):
    node = object.__new__(Tokenize)
    node.tokenizer = tokenizer
    node.reader = TextReader(node.tokenizer, 512)
    rig = make_rig(PooledPipeline(task))
    rig.pipeline.lines = [SimpleNamespace(node=node)]
    able = EMBEDDING if path.endswith("embed") else SCORING
    assert (200 in answered(rig, path)) == (task in able.tasks)
