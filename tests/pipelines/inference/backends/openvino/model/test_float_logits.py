"""Logits are float32 sums of float32 products on every engine, whatever the rest of a decoder computes in."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import openvino as ov
import pytest
from breadth import after
from gguf import GGMLQuantizationType as Type
from gguf_files import write_llama_like
from lone_steps import step
from openvino import opset13 as ops
from small_onnx_decoders import write_small

from pipelines.base.prepared_models import PreparedModels
from pipelines.gguf.convert import FLOAT_SUMS, convert
from pipelines.inference.backends.onnx.head import nodes_from_head
from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession
from pipelines.inference.backends.onnxruntime.cuda.lowering import lower_for_cuda
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.model.inference_type import inference_type
from pipelines.inference.backends.openvino.model.lm_head import (
    compute_logits_in_float32,
    compute_output_in_float32,
    gather_logits,
)
from pipelines.inference.backends.openvino.prepared.prepared_decoder import open_prepared

IN_BFLOAT16 = OpenVINOSettings(precision="bf16")
needs_bfloat16 = pytest.mark.skipif(
    inference_type("bf16") != ov.Type.bf16, reason="OpenVINO computes in bfloat16 only with AVX-512"
)
RNG = np.random.default_rng(3)
OUTER, INNER, GROUP = 64, 128, 32


def gguf_model(folder, kind=Type.F32, **options):
    write_llama_like(folder / "tiny.gguf", kind=kind, **options)
    convert(folder / "tiny.gguf", folder / "model")
    return folder / "model" / "model.onnx"


def linears(compiled):
    """(the type in which it is computed, that of its output) of each product that the device runs, in order."""
    nodes = [node.get_rt_info() for node in compiled.get_runtime_model().get_ordered_ops()]
    kinds = ("FullyConnected", "MatMul")
    return [
        (each["runtimePrecision"].astype(str), each["outputPrecisions"].astype(str))
        for each in nodes
        if each["layerType"].astype(str) in kinds
    ]


def check_last(session):
    """The last product is computed in float32, others are not."""
    *others, last = linears(session._compiled)
    assert last == ("f32", "f32")
    assert ("bf16", "bf16") in others


@needs_bfloat16
@pytest.mark.parametrize("tied", after(1, [True, False]))
def test_a_head_from_onnx_is_not_narrowed_to_bfloat16(tmp_path, tied):
    check_last(OpenVINOSession(gguf_model(tmp_path, tied=tied), IN_BFLOAT16))


@needs_bfloat16
def test_nor_is_a_stored_one(tmp_path):
    path, store = gguf_model(tmp_path), PreparedModels(64 << 20, tmp_path / "cache")
    first = open_prepared(path, IN_BFLOAT16, store).first_step
    stored = open_prepared(path, IN_BFLOAT16, store)
    assert len(list(store.folder.iterdir())) == 1
    assert stored.first_step == first
    check_last(stored)


@needs_bfloat16
def test_nor_are_the_sums_of_an_adapter_and_the_head(tmp_path):
    """An adapter may replace the head, which then gives nothing."""
    settings = OpenVINOSettings(precision="bf16", targets=frozenset({"lm_head"}))
    *others, own, low, more = linears(OpenVINOSession(gguf_model(tmp_path), settings)._compiled)
    assert {own, low, more} == {("f32", "f32")}
    assert ("bf16", "bf16") in others


@needs_bfloat16
@pytest.mark.slow
def test_nor_is_that_of_openvinos_own_form(exported):
    settings = OpenVINOSettings(precision="bf16", kv_cache="f32")
    check_last(OpenVINOSession(exported("llama")[1] / "openvino_model.xml", settings))


@needs_bfloat16
def test_nor_is_the_last_product_of_a_model_that_gives_labels():
    inputs = ops.parameter([-1, INNER], np.float32)
    first, second = (RNG.normal(size=(INNER, INNER)).astype(np.float32) for _ in range(2))
    labels = ops.add(
        ops.matmul(ops.relu(ops.matmul(inputs, first, False, False)), second, False, True), np.float32(1.5)
    )
    model = ov.Model([ops.result(labels)], [inputs])
    compute_output_in_float32(model, rounds=True)
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "bf16"})
    assert [computed for computed, _ in linears(compiled)] == ["bf16", "f32"]


def compressed(kind: str, grouped: bool) -> ov.Node:
    """A weight [OUTER, INNER] of few bits with scales, of unsigned ones with zero points too."""
    sizes = (OUTER, INNER // GROUP, GROUP) if grouped else (OUTER, INNER)
    of_scales, element = (*sizes[:-1], 1), getattr(ov.Type, kind)
    low, high = {"u8": (0, 256), "i8": (-127, 128), "u4": (0, 16), "i4": (-7, 8)}[kind]
    weight = ops.convert(ops.constant(RNG.integers(low, high, sizes), element), "f16")
    if kind[0] == "u":
        zeros = ops.constant(RNG.integers(high // 2 - 2, high // 2 + 2, of_scales), element)
        weight = ops.subtract(weight, ops.convert(zeros, "f16"))
    weight = ops.multiply(weight, ops.constant(RNG.uniform(0.01, 0.02, of_scales).astype(np.float16)))
    return ops.convert(ops.reshape(weight, ops.constant([OUTER, INNER]), False), "f32")


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("kind", ["u8", "i8", "u4", "i4"])
def test_a_head_of_few_bits_does_not_round_what_it_reads(kind, grouped):
    """Processors with instructions for sums of int8 products round it, unless told otherwise."""
    hidden = ops.parameter([-1, INNER], np.float32)
    weight = compressed(kind, grouped)
    exact = ov.Core().compile_model(ov.Model([weight], []), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({})[0]
    model = ov.Model([ops.result(ops.matmul(hidden, weight, False, True))], [hidden])
    gather_logits(model)
    compute_logits_in_float32(model, rounds=True)
    compiled = ov.Core().compile_model(model, "CPU")
    rows = RNG.normal(size=(4, INNER)).astype(np.float32)
    logits = compiled([rows, np.arange(4)])[0]
    np.testing.assert_allclose(logits, rows @ exact.astype(np.float32).T, rtol=1e-4, atol=1e-4)
    weights = {constant.get_rt_info()["runtimePrecision"].astype(str) for constant in _constants(compiled)}
    assert kind in weights  # which it still reads as they are


def _constants(compiled):
    nodes = compiled.get_runtime_model().get_ordered_ops()
    return [each for each in nodes if each.get_rt_info()["layerType"].astype(str) == "Const"]


@pytest.mark.parametrize("element_type", ["f16", "bf16"])
@pytest.mark.parametrize("lower", [False, True], ids=["read", "lowered for cuda"])
def test_a_head_of_half_precision_reads_and_gives_float32(tmp_path, element_type, lower):
    decoder = read_decoder(write_small(tmp_path, element_type))
    model = lower_for_cuda(decoder, 256) if lower else decoder.model
    head, *behind = nodes_from_head(model.graph)
    assert head.op_type == "MatMul"
    assert [each.producer().attributes["to"].as_int() for each in head.inputs] == [ir.DataType.FLOAT] * 2
    assert {out.dtype for node in (head, *behind) for out in node.outputs} == {ir.DataType.FLOAT}
    others = [node for node in model.graph if node.op_type == "MatMul" and node is not head]
    assert all(each.inputs[0].dtype != ir.DataType.FLOAT for each in others)


@pytest.mark.parametrize("kind", after(1, [Type.Q4_1, Type.Q8_0, Type.Q4_K]))
def test_onnx_runtime_loses_nothing_by_rounding(tmp_path, kind):
    """Of files that let it round what products read, whose logits it gives as those of sums of floats."""
    rounded = gguf_model(tmp_path, kind)
    convert(tmp_path / "tiny.gguf", tmp_path / "floats", FLOAT_SUMS)
    given, exact = (OnnxCpuSession(path) for path in (rounded, tmp_path / "floats" / "model.onnx"))
    for session in (given, exact):
        session.allocate(4)
    ids = step(RNG.integers(3, 200, size=40), 0, [0, 1, 2], range(40))
    np.testing.assert_allclose(given.run(ids), exact.run(ids), rtol=0, atol=1e-3)
