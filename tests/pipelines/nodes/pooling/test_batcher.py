"""The batcher node: what it hands over on the worker, and the engine that it makes in the host."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from fake_encoder import FAKE_BATCHER, use_fake_encoders, write_fake_encoder

from pipelines.base.errors import RequestError
from pipelines.host.models.model import load_for_host
from pipelines.loading.inspection import inspect
from pipelines.loading.load import BuildError
from pipelines.nodes.pooling.batcher import Batcher
from pipelines.nodes.pooling.result_names import ResultNames
from pipelines.nodes.request_plan import NOTHING
from pipelines.repository.model_folders import scan
from pipelines.values.node_values import Images, Tensors, Tokens
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import GenerationInput, PoolingInput
from pipelines.wire.address import EngineAddress

HERE = EngineAddress("model", 1, "rows")


class Call(SimpleNamespace):
    def infer(self, address, inputs, outputs=None, text_lengths=None, hold=False, **images):
        self.sent = SimpleNamespace(address=address, inputs=inputs, outputs=outputs, lengths=text_lengths)
        return Deferred(None)


@pytest.fixture
def node(tmp_path):
    made = Batcher(Batcher.Config(), tmp_path)
    made.load(SimpleNamespace(address=HERE, binding=None))
    return made


def call(**wanted):
    return Call(request=PoolingInput(**wanted), plan=NOTHING)


def built(folder, **host):
    (model,) = scan(folder)
    return load_for_host(model, **host)


def problem(tmp_path, graph, **fake):
    write_fake_encoder(tmp_path / "rows", graph, **fake)
    with pytest.raises(BuildError) as caught:
        built(tmp_path)
    (said,) = caught.value.problems
    return said


def test_texts_go_over_one_behind_another(node):
    made = call(activate=False, priority=-3)
    node.run(made, [Tokens([1, 2]), Tokens([3])])
    sent = made.sent.inputs
    assert (sent["ids"].tolist(), sent["ids"].dtype) == ([1, 2, 3], np.int32)
    assert (sent["lengths"].tolist(), sent["lengths"].dtype) == ([2, 1], np.int32)
    assert (sent["activate"].tolist(), sent["priority"].tolist()) == ([0], [-3])
    assert "types" not in sent
    assert (made.sent.lengths, made.sent.address) == ([2, 1], HERE)


def test_what_goes_without_saying_is_not_sent(node):
    made = call()
    node.run(made, [Tokens([1, 2])])
    assert sorted(made.sent.inputs) == ["ids", "lengths"]


def test_types_go_with_them_where_a_text_has_any(node):
    made = call()
    node.run(made, [Tokens([1, 2], types=[0, 1]), Tokens([3])])
    assert (made.sent.inputs["types"].tolist(), made.sent.inputs["types"].dtype) == ([0, 1, 0], np.uint8)


def names_of(node, **wanted):
    made = Call(request=GenerationInput(**wanted), plan=NOTHING)
    node.run(made, Images(np.zeros((2, 3, 1, 1), np.float32), [4, 4], [b"a" * 16, b"b" * 16], 9, (), []))
    return [each.tobytes() for each in made.sent.inputs["names"]]


def test_images_go_with_the_names_of_their_contents_which_a_salt_changes(node):
    assert names_of(node) == [b"a" * 16, b"b" * 16]
    salted = names_of(node, cache_salt="x")
    assert len({*names_of(node), *salted, *names_of(node, cache_salt="y")}) == 6
    assert salted == names_of(node, cache_salt="x")


@pytest.mark.parametrize("outside", [-(1 << 40), 1 << 31])
def test_ids_that_no_model_has_are_refused_before_they_are_sent(node, outside):
    made = call()
    with pytest.raises(RequestError, match=f"^Token id {outside} is out of vocabulary$"):
        node.run(made, [Tokens([1]), Tokens([2, outside])])
    assert not hasattr(made, "sent")


def test_the_answer_is_rows_of_texts_or_of_their_tokens():
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    names = ResultNames(None)
    assert names.read(Tensors(embeddings=values), {"": 0}).values is values
    split = names.read(Tensors(embeddings=values, lengths=np.array([1, 3], np.int32)), {"": 0})
    assert split.per_token
    assert [part.tolist() for part in split.values] == [values[:1].tolist(), values[1:].tolist()]


def test_a_graph_with_a_batcher_is_checked_and_drawn(tmp_path):
    (finding,) = inspect(write_fake_encoder(tmp_path / "rows"))
    assert finding.problems == ()
    assert "batcher" in finding.text()
    assert "batch" in finding.text()


def test_the_host_s_model_says_how_long_a_text_may_be(tmp_path, monkeypatch):
    use_fake_encoders(monkeypatch)
    write_fake_encoder(tmp_path / "rows", max_tokens=40)
    made = built(tmp_path)
    assert (made.max_context, made.cache_tokens, made.inputs) == (40, 0, [])
    made.close()
    write_fake_encoder(tmp_path / "rows", FAKE_BATCHER.replace("max_batch_tokens: 256", "max_tokens: 30"))
    made = built(tmp_path)
    assert made.max_context == 30
    made.close()


def test_a_graph_cannot_make_a_model_read_more(tmp_path, monkeypatch):
    use_fake_encoders(monkeypatch)
    said = problem(tmp_path, FAKE_BATCHER.replace("max_batch_tokens: 256", "max_tokens: 90"))
    assert said == "graph.yaml:5: rows (batcher): max_tokens: the model reads 64 tokens, not 90"


def test_rows_of_texts_are_not_stored(tmp_path, monkeypatch):
    use_fake_encoders(monkeypatch)
    graph = FAKE_BATCHER.replace("max_batch_tokens: 256", "cache_mb: 90")
    said = problem(tmp_path, graph, per_token=True)
    assert said == (
        "graph.yaml:5: rows (batcher): cache_mb: only embeddings of images and sounds are stored; remove it"
    )
