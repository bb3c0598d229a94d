"""model.onnx through OpenVINO: the same paged model, tokens of transformers, weights where they lie."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx_ir as ir
import openvino as ov
import pytest
from block_products import block_product
from breadth import after
from greedy_batches import generate_together, greedy_engine
from lone_steps import step as lone_step
from small_onnx_decoders import VOCABULARY, small_decoder, write_small
from test_openvino_session import PROMPT, step
from tiny_decoders import prompts
from whole_prompts import logits_of

from pipelines.inference.backends.onnx.decoder_model import DecoderModel
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.openvino.decoder import from_onnx
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.decoder.from_onnx import page_decoder, read_onnx
from pipelines.inference.backends.openvino.decoder.onnx_weights import (
    BLOCK_MATMUL,
    rewrite_compressed_weights,
)
from pipelines.inference.backends.openvino.model.inference_type import has_int8_sums
from pipelines.inference.backends.openvino.model.lm_head import gather_logits
from pipelines.inference.backends.openvino.paging.paged_attention import read_paged
from pipelines.inference.contracts.device_errors import ModelError

EXACT = OpenVINOSettings(kv_cache="f32", precision="f32")
RNG = np.random.default_rng(0)


def without_cap(element_type: str = "f32") -> DecoderModel:
    decoder = small_decoder(element_type)
    return replace(decoder, layers=[replace(layer, softcap=0.0) for layer in decoder.layers])


def inputs(model: ov.Model) -> dict[str, tuple[ov.Type, int]]:
    return {port.any_name: (port.get_element_type(), len(port.get_partial_shape())) for port in model.inputs}


def attention_nodes(model: ov.Model) -> list[ov.Node]:
    return [node for node in model.get_ordered_ops() if node.get_type_name() == "PagedAttentionExtension"]


def constants(model: ov.Model) -> list[ov.op.Constant]:
    return [node for node in model.get_ordered_ops() if node.get_type_name() == "Constant"]


# Against the transformation and against transformers


@pytest.mark.slow
@pytest.mark.parametrize("family", after(1, ["mistral", "llama", "qwen3", "gemma3_text"]))
def test_tokens_equal_transformers(family, exported_onnx, generated):
    session = OpenVINOSession(exported_onnx(family), EXACT)
    texts, num_cached = generate_together(greedy_engine(session, num_blocks=64), prompts())
    session.close()
    assert texts == generated(family)
    assert num_cached >= 64
    assert all(len(set(text)) > 3 for text in texts), "degenerate text proves nothing"


@pytest.mark.slow
def test_the_model_has_the_inputs_that_the_transformation_gives(exported, exported_onnx):
    transformed = read_paged(exported("mistral")[1] / "openvino_model.xml")
    gather_logits(transformed)
    written = read_onnx(exported_onnx("mistral")).model
    assert inputs(written) == inputs(transformed)
    assert str(written.output(0).get_partial_shape()) == "[?,320]"


@pytest.mark.slow
def test_the_attention_node_is_the_one_that_the_transformation_writes(exported, exported_onnx):
    """Every input in its place: type, rank, and the values of those that are constant; and the sizes."""

    def told(node: ov.Node) -> list[object]:
        sizes = {name: str(value.astype(int)) for name, value in node.get_rt_info().items()}
        return [*(_told(port) for port in node.inputs()), node.get_attributes(), sizes]

    def _told(port: ov.Input) -> object:
        source = port.get_source_output().get_node()
        value = source.get_data().tolist() if source.get_type_name() == "Constant" else None
        name = source.get_friendly_name() if source.get_type_name() == "Parameter" else None
        return port.get_element_type(), len(port.get_partial_shape()), name, value

    transformed = read_paged(exported("mistral")[1] / "openvino_model.xml")
    written = read_onnx(exported_onnx("mistral")).model
    window = 10  # which the transformation leaves as a product of constants
    for theirs, ours in zip(attention_nodes(transformed), attention_nodes(written), strict=True):
        wanted, ours_told = told(theirs), told(ours)
        assert ours_told[window] == (*wanted[window][:3], 24)
        assert ours_told[:window] + ours_told[window + 1 :] == wanted[:window] + wanted[window + 1 :]


@pytest.mark.parametrize(("family", "tolerance"), [("llama", 5e-4), ("qwen3", 2e-2)])
def test_folders_of_genais_builder_give_the_logits_of_transformers(family, tolerance):
    """Logits of up to 4, recorded with 4 digits; qwen3 is in float16."""
    folder = Path(__file__).parents[2] / "recorded" / "genai-tiny"
    expected = json.loads((folder / "logits.json").read_text())
    session = OpenVINOSession(folder / family / "model.onnx", EXACT)
    session.allocate(4)
    logits = session.run(step(expected["prompt"], 0, [2, 1], expected["rows"]))
    np.testing.assert_allclose(logits, expected["logits"][family], atol=tolerance)


def test_a_device_that_removes_nodes_keeps_the_names_of_inputs():
    """As in onnxruntime-genai's graphs, where ids lose the axis that the form gives them."""
    decoder = without_cap()
    graph = decoder.model.graph
    row = next(value for value in graph.inputs if value.name == "input_ids")
    reader, index = next(iter(row.uses()))
    axis = ir.node("Constant", [], {"value_ints": [0]})
    flat = ir.node("Squeeze", [row, *axis.outputs])
    again = ir.node("Unsqueeze", [*flat.outputs, *axis.outputs])
    graph.insert_before(reader, [axis, flat, again])
    reader.replace_input_with(index, again.outputs[0])
    flat.outputs[0].name, again.outputs[0].name = "a", "b"
    compiled = ov.Core().compile_model(page_decoder(decoder).model, "CPU")
    names = [port.get_names() for port in compiled.inputs]
    assert {"input_ids"} in names
    assert all(len(name) == 1 for name in names)


@pytest.mark.parametrize("more", [{"has_sinks": True}, {"has_slopes": True, "window": -1}])
def test_what_a_head_adds_to_its_scores(more, tmp_path):
    """Sinks, and ALiBi by distance, on both engines, over two steps."""
    changes = {"softcap": 0.0} | more
    path = write_small(tmp_path, **changes)
    ids = RNG.integers(0, VOCABULARY, 40)
    wanted = logits_of(small_decoder(**changes), ids.tolist())
    for open_session in (partial(OpenVINOSession, settings=EXACT), OnnxCpuSession):
        session = open_session(path)
        session.reserve(40, 1)
        session.allocate(4)
        blocks = list(range(-(-40 // session.shape.block_tokens)))
        first = session.run(lone_step(ids[:23], 0, blocks, list(range(23)))).copy()
        rest = session.run(lone_step(ids[23:], 23, blocks, list(range(17))))
        session.close()
        np.testing.assert_allclose(np.concatenate([first, rest]), wanted, atol=1e-5)


# Types and what is refused


@pytest.mark.parametrize("element_type", ["f16", "bf16"])
def test_half_precision_exports_give_nearly_the_same_logits(element_type):
    def logits(decoder: DecoderModel) -> np.ndarray:
        compiled = ov.Core().compile_model(
            page_decoder(decoder).model,
            "CPU",
            {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"},
        )
        feed = {
            "input_ids": np.arange(5, dtype=np.int64),
            "position_ids": np.arange(5, dtype=np.int64),
            "past_lens": np.zeros(1, np.int32),
            "subsequence_begins": np.array([0, 5], np.int32),
            "block_indices": np.zeros(1, np.int32),
            "block_indices_begins": np.array([0, 1], np.int32),
            "max_context_len": np.array(5, np.int32),
            "logit_indices": np.array([4, 1]),
        }
        for port in compiled.inputs:
            if "_cache." in port.any_name:
                feed[port.any_name] = np.zeros([1, 1, 32, 16], np.float32)
        return compiled(feed)[0]

    exact, rounded = logits(without_cap()), logits(without_cap(element_type))
    assert (exact.shape, exact.dtype, rounded.dtype) == ((2, 96), np.float32, np.float32)
    assert np.corrcoef(exact.ravel(), rounded.ravel())[0, 1] > 0.999
    assert np.ptp(exact[0] - exact[1]) > 0.1, "rows alike prove nothing"


@pytest.mark.parametrize(
    ("more", "why"),
    [({}, "softcap"), ({"softcap": 0.0, "has_slopes": True}, "within a window")],
)
def test_scores_that_openvino_cannot_compute_are_refused_with_the_engine_that_can(more, why):
    with pytest.raises(ModelError, match=rf"{why}.*`engine: onnxruntime`"):
        page_decoder(small_decoder(**more))


def test_an_operator_that_openvino_does_not_know_is_named():
    decoder = without_cap()
    node = next(node for node in decoder.model.graph if node.op_type == "MatMul")
    node.op_type, node.domain = "Unheard", "of"
    decoder.model.opset_imports["of"] = 1
    with pytest.raises(ModelError, match=r"cannot take this graph.*Unheard.*`engine: onnxruntime`"):
        page_decoder(decoder)


# Weights


@pytest.fixture(params=["int8", "int4"])
def compressed(request, exported_onnx, tmp_path) -> Path:
    """mistral (whose embedding is its head) with compressed weights."""
    from tools.export.graphs.quantizing import quantize

    path = exported_onnx("mistral")
    (tmp_path / "config.json").write_text((path.parent / "config.json").read_text())
    ir.save(quantize(ir.load(path), request.param), tmp_path / "model.onnx", external_data="model.onnx.data")
    return tmp_path / "model.onnx"


@pytest.mark.slow
def test_compressed_weights_give_the_logits_of_onnxruntime(compressed):
    ours, theirs = OpenVINOSession(compressed, EXACT), OnnxCpuSession(compressed, OnnxCpuSettings(threads=1))
    for session in (ours, theirs):
        session.allocate(8)
    asked = step(PROMPT, 0, [0, 1, 2, 3], [49, 10, 30])
    logits = [session.run(asked).copy() for session in (ours, theirs)]
    assert np.corrcoef(*(rows.ravel() for rows in logits))[0, 1] > 0.999  # both multiply in int8


@pytest.mark.slow
def test_compressed_weights_are_used_where_they_lie(compressed):
    read = read_onnx(compressed)
    files = [
        line.split() for line in Path("/proc/self/maps").read_text().splitlines() if str(compressed) in line
    ]
    spans = [tuple(int(end, 16) for end in line[0].split("-")) for line in files]
    large = [one for one in constants(read.model) if one.get_byte_size() > 2000]
    assert {one.get_element_type().to_string() for one in large} >= {"u8", "f16"}
    assert all(any(low <= one.data.ctypes.data < high for low, high in spans) for one in large)


@pytest.mark.slow
def test_the_device_computes_with_compressed_weights(compressed):
    read = read_onnx(compressed)
    compiled = ov.Core().compile_model(read.model, "CPU")
    types = [
        node.output(0).get_element_type().to_string()
        for node in compiled.get_runtime_model().get_ordered_ops()
        if node.outputs()
        and node.get_rt_info()["layerType"].astype(str) == "Const"
        and len(node.output(0).get_partial_shape()) == 2
    ]
    assert types.count("u8") + types.count("u4") >= 4 * 2 + 1  # the matrices of two layers, and the head


@pytest.mark.parametrize("zeros", [None, "packed", "odd", "float32"])
@pytest.mark.parametrize("bits", [4, 8])
def test_block_weights_are_read_as_they_are_meant(bits, zeros, tmp_path):
    """OpenVINO's own reading for packed zero points that are no whole bytes, ours for the others."""
    inner = 48 if zeros == "odd" else 64
    model, weight = block_product(bits, "packed" if zeros == "odd" else zeros, inner)
    ir.save(model, tmp_path / "model.onnx")
    rows = RNG.normal(size=(1, 3, inner)).astype(np.float32)
    decoder = DecoderModel(model, tmp_path, [], 0, 0, "f32")
    rewrite_compressed_weights(model.graph)
    assert any(node.op_type == BLOCK_MATMUL for node in model.graph) is ((bits, zeros) != (4, "odd"))
    exact = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    product = ov.Core().compile_model(page_decoder(decoder).model, "CPU", exact)(rows)[0]
    np.testing.assert_allclose(product, rows @ weight.T, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("bits", [4, 8])
def test_float_zero_points_become_sums_of_blocks_where_the_device_sums_in_int8(bits, tmp_path, monkeypatch):
    def subtracted(model):  # by how many float zero points
        float_sources = [
            node.input_value(1).get_node().get_type_name() == "Reshape"
            for node in model.get_ordered_ops()
            if node.get_type_name() == "Subtract" and len(node.get_output_shape(0)) == 3
        ]
        return sum(float_sources)

    def paged(int8_sums):
        model, weight = block_product(bits, "float32")
        return page_decoder(DecoderModel(model, tmp_path, [], 0, 0, "f32"), None, int8_sums).model, weight

    assert [subtracted(paged(summed)[0]) for summed in (False, True)] == [1, 1], "a small product stays"
    monkeypatch.setattr(from_onnx, "LEAST_SUMMED", 1)
    model, weight = paged(True)
    assert subtracted(model) == 0
    rows = RNG.normal(size=(1, 3, 64)).astype(np.float32)
    exact = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    product = ov.Core().compile_model(model, "CPU", exact)(rows)[0]
    np.testing.assert_allclose(product, rows @ weight.T, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("avx2 avx512_vnni", True), ("avx_vnni fma", True), ("avx2 avx512_bf16", False), (None, False)],
)
def test_processors_with_int8_sums_are_known_by_their_flags(flags, expected, tmp_path):
    described = tmp_path / "cpuinfo"
    if flags is not None:
        described.write_text(f"model name\t: a CPU\nflags\t\t: fpu {flags}\n")
    assert has_int8_sums(described) is expected
