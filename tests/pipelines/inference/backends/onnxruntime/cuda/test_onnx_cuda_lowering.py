"""The form lowered to contrib PagedAttention, held against ONNX Runtime's own schema of the operator."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
from small_onnx_decoders import VOCABULARY, sinks_of, small_decoder

from pipelines.inference.backends.onnxruntime.cuda.lowering import (
    HEADROOM,
    NUM_INPUTS,
    block_tokens_for,
    choose_cache,
    lower_for_cuda,
    quantization_scale,
    uncapturable,
)
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.onnx_format.decoder_format import AttentionLayer

CALIBRATED = {"key_absmax": 12.5, "value_absmax": 3.0}
VARIANTS = [
    (model, cache)
    for model in ("f32", "f16", "bf16")
    for cache in (None, "i8", "f8", *{"f32": ("f16", "bf16")}.get(model, ()))
]
STEP_INPUTS = (
    "cumulative_sequence_length",
    "past_seqlens",
    "block_table",
    "slot_mapping",
    "attention_metadata",
)
CACHE_ELEMENTS = {"f16": "FLOAT16", "bf16": "BFLOAT16", "i8": "INT8", "f8": "FLOAT8E4M3FN"}


def lowered(element_type: str, kv_cache: str | None) -> onnx.ModelProto:
    model = lower_for_cuda(small_decoder(element_type, **CALIBRATED), 256, kv_cache)
    return ir.to_proto(model)


def schema():
    return next(one for one in get_all_operator_schema() if one.name == "PagedAttention")


@pytest.mark.parametrize(("element_type", "kv_cache"), VARIANTS)
def test_every_variant_is_a_valid_model(element_type: str, kv_cache: str | None):
    proto = lowered(element_type, kv_cache)
    onnx.checker.check_model(proto)
    onnx.shape_inference.infer_shapes(proto, strict_mode=True)


@pytest.mark.parametrize(("element_type", "kv_cache"), VARIANTS)
def test_onnx_runtime_accepts_every_type_and_lacks_only_a_kernel(element_type: str, kv_cache: str | None):
    """On the CPU provider types and shapes are checked first; then a kernel is missing.

    For float16 the CPU provider has few kernels, so it puts casts to float32 around the node, and only its
    own cast is then of a wrong type.
    """
    assert refusal(lowered(element_type, kv_cache)) in ("no kernel", "a cast of its own")


def test_onnx_runtime_does_check_types():
    proto = lowered("bf16", None)
    for node in attentions(proto.graph):
        node.input[10] = "logits_indices"  # int64, where int32 is wanted
    assert refusal(proto) == "type error"


def test_inputs_are_those_of_the_contract():
    graph = lowered("f16", None).graph
    shapes = {
        value.name: (
            onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type),
            [d.dim_value or d.dim_param for d in value.type.tensor_type.shape.dim],
        )
        for value in graph.input
    }
    pool = ("FLOAT16", ["num_blocks", 256, 1, 16])
    assert shapes == {
        "input_ids": ("INT64", ["num_tokens"]),
        "position_ids": ("INT64", ["num_tokens"]),
        "cumulative_sequence_length": ("INT32", ["batch_plus_1"]),
        "past_seqlens": ("INT32", ["batch"]),
        "block_table": ("INT32", ["batch", "columns"]),
        "slot_mapping": ("INT32", ["num_tokens"]),
        "logits_indices": ("INT64", ["num_logits"]),
        "attention_metadata": ("INT32", [3]),
        **{f"{kind}_cache.{layer}": pool for kind in ("key", "value") for layer in (0, 1)},
    }
    (output,) = graph.output
    assert output.name == "logits"
    assert [d.dim_value or d.dim_param for d in output.type.tensor_type.shape.dim] == [
        "num_logits",
        VOCABULARY,
    ]


@pytest.mark.parametrize(("element_type", "kv_cache"), VARIANTS)
def test_node_inputs_stand_where_the_schema_has_them(element_type: str, kv_cache: str | None):
    graph = lowered(element_type, kv_cache).graph
    names = [parameter.name for parameter in schema().inputs]
    assert len(names) == NUM_INPUTS
    for layer, node in enumerate(attentions(graph)):
        inputs = dict(zip(names, node.input, strict=True))
        for name in STEP_INPUTS:
            assert inputs[name] == name
        assert (inputs["key_cache"], inputs["value_cache"]) == (f"key_cache.{layer}", f"value_cache.{layer}")
        absent = {"cos_cache", "sin_cache", "head_sink", "q_norm_weight", "k_norm_weight"}
        assert {name for name in absent if inputs[name]} == set()
        assert bool(inputs["k_scale"]) == bool(inputs["v_scale"]) == (kv_cache in ("i8", "f8"))
        assert len(node.output) == 1


@pytest.mark.parametrize("element_type", ["f32", "bf16"])
def test_sinks_stand_where_the_schema_has_them_in_the_type_of_queries(element_type: str):
    decoder = small_decoder(element_type, softcap=0.0, has_sinks=True)
    proto = ir.to_proto(lower_for_cuda(decoder, 256, None))
    onnx.checker.check_model(proto)
    place = [parameter.name for parameter in schema().inputs].index("head_sink")
    tensors = {initializer.name: initializer for initializer in proto.graph.initializer}
    wanted = {"f32": "FLOAT16", "bf16": "BFLOAT16"}[element_type]
    for layer, node in zip(decoder.layers, attentions(proto.graph), strict=True):
        tensor = tensors[node.input[place]]
        assert onnx.TensorProto.DataType.Name(tensor.data_type) == wanted
        values = onnx.numpy_helper.to_array(tensor).astype(np.float32)
        np.testing.assert_allclose(values, sinks_of(layer), atol=1e-2)


@pytest.mark.parametrize(("element_type", "kv_cache"), VARIANTS)
def test_types_are_ones_the_schema_allows(element_type: str, kv_cache: str | None):
    """T and T_CACHE of every node, inferred through the graph; unquantized caches have T itself."""
    proto = lowered(element_type, kv_cache)
    inferred = onnx.shape_inference.infer_shapes(proto).graph
    types = {v.name: v.type.tensor_type.elem_type for v in [*inferred.value_info, *inferred.input]}
    names = onnx.TensorProto.DataType
    computes = "BFLOAT16" if element_type == "bf16" or kv_cache == "bf16" else "FLOAT16"
    cache = CACHE_ELEMENTS[kv_cache] if kv_cache else computes
    for node in attentions(inferred):
        assert {names.Name(types[name]) for name in node.input[:3]} == {computes}
        assert {names.Name(types[name]) for name in node.input[3:5]} == {cache}


def test_attributes_are_known_to_the_schema_and_mean_the_same():
    known = schema().attributes
    for cache in (None, "i8"):
        for node in attentions(lowered("f16", cache).graph):
            attributes = {
                attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute
            }
            assert attributes.keys() <= known.keys()
            quantized = {"k_quant_type": b"PER_TENSOR", "v_quant_type": b"PER_TENSOR"}
            assert attributes.items() >= (quantized if cache else {}).items()
    first, second = attentions(lowered("f16", None).graph)
    attributes = {
        attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in second.attribute
    }
    assert attributes == {
        "num_heads": 2,
        "kv_num_heads": 1,
        "scale": 0.25,
        "softcap": 20.0,
        "local_window_size": 24,
    }
    assert {attribute.i for attribute in first.attribute if attribute.name == "local_window_size"} == {-1}


def test_nothing_computes_a_shape():
    """A node on the CPU between two of the device would keep a graph from being captured."""
    for element_type in ("f32", "f16"):
        operators = {node.op_type for node in lowered(element_type, None).graph.node}
        assert operators.isdisjoint({"Shape", "Size", "Range", "Concat", "NonZero"})
    assert "Cast" in {node.op_type for node in lowered("f32", None).graph.node}


def test_rotary_embedding_turns_tokens_where_they_lie():
    """No transpose before attention is left, and queries and keys are the same numbers as before."""
    decoder = small_decoder("f32", rotary=True)
    before = [decoder.model.graph[i].inputs for i in range(len(decoder.model.graph))]
    model = lower_for_cuda(decoder, 256)
    operators = [node.op_type for node in model.graph]
    assert operators.count("RotaryEmbedding") == 2 * len(decoder.layers)
    assert operators.count("Transpose") == 2 * len(decoder.layers)  # after attention, theirs and ours
    assert [decoder.model.graph[i].inputs for i in range(len(before))] == before
    feed = {"input_ids": np.arange(9), "position_ids": np.arange(9) + 40}
    flat = run_first_inputs(ir.to_proto(model), "PagedAttention", feed)
    heads = run_first_inputs(
        ir.to_proto(decoder.model), "PagedAttention", {name: array[None] for name, array in feed.items()}
    )
    for ours, theirs in zip(flat, heads, strict=True):
        expected = theirs[0].transpose(1, 0, 2).reshape(9, -1).astype(np.float16)
        np.testing.assert_array_equal(ours, expected)


def run_first_inputs(proto: onnx.ModelProto, op_type: str, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What the first node of that type is given as queries, keys and values."""
    node = next(candidate for candidate in proto.graph.node if candidate.op_type == op_type)
    wanted = list(node.input[:3])
    kept = proto.graph.node[: list(proto.graph.node).index(node)]
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    del proto.graph.node[len(kept) :]
    inputs = [value for value in proto.graph.input if value.name in feed]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    del proto.graph.value_info[:]
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(wanted, feed)


def test_scales_come_from_calibration():
    graph = lowered("f16", "i8").graph
    values = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    for node in attentions(graph):
        np.testing.assert_allclose(values[node.input[14]], [12.5 * HEADROOM / 127], rtol=1e-6)
        np.testing.assert_allclose(values[node.input[15]], [3.0 * HEADROOM / 127], rtol=1e-6)
    assert quantization_scale("f8", 12.5) == 12.5 * HEADROOM / 448
    assert quantization_scale("f8", None) == 1.0


def test_int8_without_calibration_is_refused():
    decoder = small_decoder("f16")
    with pytest.raises(ModelError, match="calibrate"):
        lower_for_cuda(decoder, 256, "i8")
    assert choose_cache(decoder, "f8") == "f8"


@pytest.mark.parametrize(
    ("element_type", "kv_cache"), [("f16", "f32"), ("f16", "u4"), ("f16", "bf16"), ("bf16", "f16")]
)
def test_caches_without_a_kernel_are_refused(element_type: str, kv_cache: str):
    with pytest.raises(ModelError, match=f"kv_cache {kv_cache}"):
        choose_cache(small_decoder(element_type), kv_cache)


def test_heads_that_the_operator_cannot_take_are_refused():
    with pytest.raises(ModelError, match="multiples of 8"):
        lower_for_cuda(small_decoder("f16", head_size=12), 256)


@pytest.mark.parametrize(
    ("sizes", "cache", "tokens"),
    [
        ([64], "f16", 256),
        ([128], "bf16", 128),
        ([256], "f16", 64),
        ([256, 64], "f16", 256),
        ([256], "f8", 128),
    ],
)
def test_blocks_fit_the_kernels_tiles(sizes: list[int], cache: str, tokens: int):
    layers = [AttentionLayer(i, 2, 1, size, 1.0, -1, 0.0) for i, size in enumerate(sizes)]
    assert block_tokens_for(layers, cache) == tokens


def attentions(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    return [node for node in graph.node if node.op_type == "PagedAttention"]


def refusal(proto: onnx.ModelProto) -> str:
    """Why ONNX Runtime's CPU provider does not open the model."""
    with pytest.raises(Exception, match=r"ONNXRuntimeError") as caught:
        ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    message = str(caught.value)
    if "Could not find an implementation for" in message:
        return "no kernel"
    if "InsertedPrecisionFreeCast" in message:
        return "a cast of its own"
    return "type error" if "Type Error" in message else message


@pytest.mark.parametrize("element_type", ["f32", "f16"])
def test_experts_are_linear_layers_that_no_cuda_graph_replays(element_type: str):
    model = lower_for_cuda(small_decoder(element_type, **CALIBRATED, mixture={}), 256)
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto)
    assert "MatMulNBits" in {node.op_type for node in proto.graph.node}
    assert refusal(proto) in ("no kernel", "a cast of its own")
    assert uncapturable(model) == ["Split"]
