"""Real exports: transformers' own tokens by way of the CUDA session, and a graph that ONNX Runtime accepts."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from breadth import after
from greedy_batches import generate_together, greedy_engine
from host_device import HostDevice
from host_runtime import HostRuntime, lower_for_host
from tiny_decoders import prompts

from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
from pipelines.inference.backends.onnxruntime.cuda.lowering import lower

pytestmark = pytest.mark.slow

FAMILIES = ("mistral", "llama", "qwen3", "gemma2")


@pytest.mark.parametrize("family", after(1, FAMILIES))
def test_tokens_equal_transformers(family, exported_onnx, generated):
    session = OnnxCudaSession(lower_for_host(exported_onnx(family)), HostDevice(), HostRuntime())
    texts, num_cached = generate_together(greedy_engine(session, num_blocks=64), prompts())
    session.close()
    assert texts == generated(family)
    assert num_cached >= 64


@pytest.mark.parametrize("family", after(1, FAMILIES))
def test_an_exports_graph_is_valid_and_can_be_captured(family, exported_onnx):
    decoder = read_decoder(exported_onnx(family))
    lowered = lower(decoder)
    assert lowered.uncapturable == ()
    proto = onnx.load_from_string(lowered.model)
    operators = [node.op_type for node in proto.graph.node]
    assert operators.count("PagedAttention") == len(decoder.layers)
    assert {"Shape", "Range", "Loop", "If"}.isdisjoint(operators)
    onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    nodes = [node for node in ir.from_proto(proto).graph if node.domain]
    windows = [node.attributes["local_window_size"].as_int() for node in nodes]
    assert windows == [layer.window for layer in decoder.layers]
