"""A body with several results: a request gets those that it names, and only what they need is run."""

from __future__ import annotations

import json
import queue
from types import SimpleNamespace

import numpy as np
import pytest
from batch_rig import tensors
from fake_encoder import FAKE_BATCHER, row_of, use_fake_encoders, write_fake_encoder
from patience import PATIENCE_S

from pipelines.base.errors import RequestError
from pipelines.host.models.model import load_for_host
from pipelines.inference.engine.interface.engine_contract import TensorRequest
from pipelines.loading.inspection import inspect
from pipelines.loading.load import BuildError
from pipelines.nodes.pooling.result_names import ResultNames
from pipelines.repository.model_folders import scan
from pipelines.values.node_values import Tensors

SEVERAL = FAKE_BATCHER + "      each: {type: encoder, from: batch, path: tokens.fake}\n"
TEXTS = [[1, 2, 3], [4]]


def write(folder, graph=SEVERAL):
    write_fake_encoder(folder / "one", graph, size=4)
    (folder / "one/tokens.fake").write_text(json.dumps({"size": 3, "per_token": True}))
    return folder / "one"


@pytest.fixture
def model(tmp_path, monkeypatch):
    opened = use_fake_encoders(monkeypatch)
    write(tmp_path)
    (found,) = scan(tmp_path)
    model = load_for_host(found)
    yield SimpleNamespace(engine=model.threaded["rows"], encoders=opened)
    model.close()


def ask(model, *places):
    told = queue.Queue()
    inputs = tensors(TEXTS) | ({"results": np.array(places, np.uint8)} if places else {})
    model.engine.submit("key", TensorRequest(inputs, None, lambda *answer: told.put(answer)))
    return told.get(timeout=PATIENCE_S)[1]


def rows(text):
    return [row_of(text[:end], size=3).tolist() for end in range(1, len(text) + 1)]


def test_a_request_gets_the_results_that_it_names_and_no_other_line_runs(model):
    whole, single_encoder = model.encoders
    first = ask(model)
    assert first.keys() == {"embeddings"}
    assert first["embeddings"].tolist() == [row_of(text).tolist() for text in TEXTS]
    assert (len(whole.batches) > 0, single_encoder.batches) == (True, [])
    ran = len(whole.batches)
    second = ask(model, 1)
    assert second.keys() == {"1.embeddings", "1.lengths"}
    assert second["1.lengths"].tolist() == [3, 1]
    assert second["1.embeddings"].tolist() == rows(TEXTS[0]) + rows(TEXTS[1])
    assert len(whole.batches) == ran
    both = ask(model, 0, 1)
    assert both.keys() == first.keys() | second.keys()
    named = ResultNames(None).read(Tensors(both), {"a": 1, "b": 0}).named
    assert [part.tolist() for part in named["a"]] == [rows(text) for text in TEXTS]
    assert named["b"].tolist() == first["embeddings"].tolist()


def test_the_numbers_of_all_results_count(model, monkeypatch):
    monkeypatch.setattr("pipelines.inference.engine.batching.text_checks.MAX_ANSWER_VALUES", 12)
    assert ask(model, 1)
    with pytest.raises(
        RequestError, match="hold 20 numbers: 4 numbers for each text and 3 numbers for each token"
    ):
        ask(model, 0, 1)


def test_results_are_drawn_and_a_line_that_gives_none_needs_a_reader(tmp_path):
    (finding,) = inspect(write(tmp_path))
    assert finding.problems == ()
    unread = SEVERAL.replace(
        "  rows:", "  other: {type: tokenize, from: request.prompts, tokenizer: tokenizer.json}\n  rows:"
    )
    (finding,) = inspect(write(tmp_path, unread))
    assert ["nothing reads `other`" in problem for problem in finding.problems] == [True]


def test_queries_may_get_a_result_of_their_own(tmp_path, monkeypatch):
    use_fake_encoders(monkeypatch)
    graph = SEVERAL.replace("max_batch_tokens: 256", "queries: eahc")
    write(tmp_path, graph)
    (found,) = scan(tmp_path)
    with pytest.raises(BuildError, match="queries: its body has no result `eahc`; it has hidden, each"):
        load_for_host(found)
