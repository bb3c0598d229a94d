"""Real exports: transformers' own tokens by way of the CUDA session, and a graph that ONNX Runtime accepts."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from greedy_batches import generate_together, greedy_engine
from host_device import HostDevice
from host_runtime import HostRuntime
from tiny_decoders import prompts

from pipelines.backends.onnx.cuda import OnnxCudaSession
from pipelines.backends.onnx.cuda_runtime import CudaRuntime, uncapturable
from pipelines.backends.onnx.reading import read_decoder

pytestmark = pytest.mark.slow

FAMILIES = ("llama", "qwen3", "gemma2")


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_equal_transformers(family, exported_onnx, generated):
    session = OnnxCudaSession(exported_onnx(family), HostDevice(), HostRuntime())
    session.reserve(40, 8)
    texts, num_cached = generate_together(greedy_engine(session, num_blocks=64), prompts())
    session.close()
    assert texts == generated(family)
    assert num_cached >= 64


@pytest.mark.parametrize("family", FAMILIES)
def test_an_exports_graph_is_valid_and_can_be_captured(family, exported_onnx):
    decoder = read_decoder(exported_onnx(family))
    lowered = CudaRuntime(0, 0).lower(decoder, None)
    assert uncapturable(lowered.model) == []
    operators = [node.op_type for node in lowered.model.graph]
    assert operators.count("PagedAttention") == len(decoder.layers)
    assert {"Shape", "Range", "Loop", "If"}.isdisjoint(operators)
    proto = ir.to_proto(lowered.model)
    onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    windows = [node.attributes["local_window_size"].as_int() for node in lowered.model.graph if node.domain]
    assert windows == [layer.window for layer in decoder.layers]
