"""What ONNX Runtime cannot do is said in its own error_text, with what to install or export instead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from pipelines.inference.backends.onnxruntime import runtime
from pipelines.inference.backends.onnxruntime.runtime import (
    CPU,
    CUDA,
    error_text,
    open_session,
    operator_inputs,
    require_cuda,
)
from pipelines.inference.contracts.device_errors import ModelError


def doubling(operator: str = "Add", weights: ir.TensorProtocol | None = None) -> bytes:
    """A model that gives x + x, or x + weights."""
    x = ir.val("x", ir.DataType.FLOAT, [3])
    added, initializers = x, []
    if weights is not None:
        added = ir.val("w", weights.dtype, list(weights.shape), const_value=weights)
        initializers.append(added)
    node = ir.node(operator, [x, added])
    node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = "y", x.type, x.shape
    graph = ir.Graph(
        [x], node.outputs, nodes=[node], initializers=initializers, opset_imports={"": 23}, name="g"
    )
    return ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString()


def test_external_weights_are_found_in_the_folder(tmp_path):
    np.arange(3, dtype=np.float32).tofile(tmp_path / "model.onnx.data")
    weights = ir.ExternalTensor(
        "model.onnx.data", 0, 12, ir.DataType.FLOAT, shape=ir.Shape([3]), name="w", base_dir=tmp_path
    )
    session = open_session(doubling(weights=weights), tmp_path, [CPU], 1, {})
    assert session.run(None, {"x": np.ones(3, np.float32)})[0].tolist() == [1, 2, 3]


def test_threads_and_entries_reach_the_session():
    session = open_session(doubling(), Path(), [CPU], 3, {"session.intra_op.allow_spinning": "0"})
    options = session.get_session_options()
    assert options.intra_op_num_threads == 3
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_a_model_that_cannot_be_opened_is_told_in_the_runtime_s_words():
    with pytest.raises(ModelError, match=r"^ONNX Runtime 1\.\S+ cannot open the model: .*NoSuchOperator"):
        open_session(doubling("NoSuchOperator"), Path(), [CPU], 1, {})
    with pytest.raises(ModelError, match="cannot open the model"):
        open_session(b"no protobuf", Path(), [CPU], 1, {})


def test_absent_weights_are_named(tmp_path):
    weights = ir.ExternalTensor(
        "model.onnx.data", 0, 12, ir.DataType.FLOAT, shape=ir.Shape([3]), name="w", base_dir=tmp_path
    )
    with pytest.raises(ModelError, match=r"model\.onnx\.data"):
        open_session(doubling(weights=weights), tmp_path, [CPU], 1, {})


def test_words_are_without_code():
    error = RuntimeError("[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : no kernel : for this")
    assert error_text(error) == "no kernel : for this"
    assert error_text(RuntimeError("plain")) == "plain"


def test_operators_are_known_by_their_inputs():
    assert {"block_table", "slot_mapping"} <= operator_inputs("com.microsoft", "PagedAttention")
    assert operator_inputs("com.microsoft", "NoSuchOperator") == frozenset()


def test_a_runtime_without_cuda_says_what_to_install(monkeypatch):
    monkeypatch.setattr(runtime, "providers", lambda: [CPU])
    with pytest.raises(
        ModelError,
        match=r"device cuda:0: this onnxruntime has no CUDAExecutionProvider; install braid-server",
    ):
        require_cuda("cuda:0")


def test_an_old_operator_is_named_with_what_it_lacks(monkeypatch):
    monkeypatch.setattr(runtime, "providers", lambda: [CUDA, CPU])
    monkeypatch.setattr(
        runtime, "operator_inputs", lambda *_: runtime.PAGED_ATTENTION_NEEDS - {"slot_mapping"}
    )
    with pytest.raises(ModelError, match=r"PagedAttention of onnxruntime .* has no slot_mapping; install"):
        require_cuda("cuda:1")


def test_a_provider_that_does_not_start_is_an_error_and_no_fallback(monkeypatch):
    class Fallen:
        def __init__(self, *_: object, **__: object) -> None: ...

        def get_providers(self) -> list[str]:
            return [CPU]

    monkeypatch.setattr(runtime.ort, "InferenceSession", Fallen)
    with pytest.raises(ModelError, match="could not start its CUDAExecutionProvider"):
        open_session(doubling(), Path(), [(CUDA, {"device_id": 0}), CPU], None, {})
