"""The infer node on the worker: pooled outputs of another engine become the tensor `embeddings`."""

from types import SimpleNamespace

import numpy as np
import pytest

from pipelines.base.errors import EngineError
from pipelines.nodes.tensors.infer import Infer
from pipelines.values.node_values import PooledOutputs, Tensors
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import TensorInput

ROWS = np.ones((2, 3), np.float32)


@pytest.fixture
def node():
    node = Infer(Infer.Config(), None)
    node.address = "address"
    return node


@pytest.fixture
def call():
    return SimpleNamespace(infer=lambda address, inputs, outputs=None: Deferred((address, inputs, outputs)))


def test_a_request_s_tensors_are_asked_for_at_once(node, call):
    request = TensorInput(Tensors(x=ROWS), ["y"])
    assert node.run(call, request).source == ("address", request.inputs, ["y"])


def test_rows_are_asked_for_when_they_are_there(node, call):
    later = node.run(call, Deferred("batcher"))
    assert later.source == "batcher"
    (make,) = later.makers
    assert make(PooledOutputs(ROWS)).source == ("address", {"embeddings": ROWS}, None)


def test_rows_of_tokens_are_no_tensor(node, call):
    (make,) = node.run(call, Deferred("batcher")).makers
    with pytest.raises(EngineError, match="one for each token"):
        make(PooledOutputs([ROWS]))
