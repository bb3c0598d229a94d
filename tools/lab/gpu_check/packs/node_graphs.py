"""Makes models of single attention nodes in Braid's ONNX format, and lowers them like any decoder.

Needs onnx_ir; made where that is installed, and carried to where it is not.
"""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from pipelines.inference.backends.onnx.decoder_model import DecoderModel
from pipelines.onnx_format import decoder_format
from pipelines.onnx_format.decoder_format import AttentionLayer
from tools.lab.gpu_check.packs.nodes import NodeKind

TYPES = {"f32": ir.DataType.FLOAT, "f16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}
LARGEST_CONTEXT = 1 << 20


def node_decoder(kind: NodeKind) -> DecoderModel:
    """A decoder that is one attention node: its "logits" are what it attended, float32[N, heads * size].

    Queries, keys and values are extra inputs, float32[1, heads, T, size], cast inside, so that numpy can
    feed bfloat16 too.  input_ids and position_ids are required by the format and unused.
    """
    element = TYPES[kind.element]
    nodes: list[ir.Node] = []

    def op(op_type: str, inputs: list[ir.Value | None], domain: str = "", **attributes: object) -> ir.Value:
        nodes.append(ir.node(op_type, inputs, attributes, domain=domain))
        return nodes[-1].outputs[0]

    ids, positions, indices = (
        ir.val(name, ir.DataType.INT64, ir.Shape(shape))
        for name, shape in (
            (decoder_format.INPUT_IDS, [1, "num_tokens"]),
            (decoder_format.POSITION_IDS, [1, "num_tokens"]),
            (decoder_format.LOGITS_INDICES, ["num_logits"]),
        )
    )
    fed = [
        ir.val(name, ir.DataType.FLOAT, ir.Shape([1, heads, "num_tokens", kind.head_size]))
        for name, heads in (
            ("query", kind.num_heads),
            ("key", kind.num_kv_heads),
            ("value", kind.num_kv_heads),
        )
    ]
    cast = [op("Cast", [value], to=element) for value in fed]
    for value, source in zip(cast, fed, strict=True):
        value.dtype, value.shape = element, source.shape
    sinks = ir.val("sinks", const_value=ir.tensor(kind.sink_of_head, name="sinks"))
    more = [None, sinks] if kind.sinks else []
    attended = op(decoder_format.ATTENTION, [*cast, *more], decoder_format.DOMAIN, **_attributes(kind))
    attended.dtype, attended.shape = element, fed[0].shape
    shape = ir.val(
        "row_shape", const_value=ir.tensor([-1, kind.num_heads * kind.head_size], name="row_shape")
    )
    rows = op("Reshape", [op("Transpose", [attended], perm=[0, 2, 1, 3]), shape])
    logits = op("Cast", [op("Gather", [rows, indices])], to=ir.DataType.FLOAT)
    logits.name, logits.dtype = decoder_format.LOGITS, ir.DataType.FLOAT
    logits.shape = ir.Shape(["num_logits", kind.num_heads * kind.head_size])
    graph = ir.Graph(
        [ids, positions, indices, *fed],
        [logits],
        nodes=nodes,
        initializers=[shape, sinks] if kind.sinks else [shape],
        opset_imports={"": decoder_format.OPSET, decoder_format.DOMAIN: decoder_format.VERSION},
        name=kind.name,
    )
    model = ir.Model(graph, ir_version=decoder_format.IR_VERSION)
    layer = AttentionLayer(**_attributes(kind), **_calibration(kind), has_sinks=kind.sinks)
    columns = kind.num_heads * kind.head_size
    return DecoderModel(model, Path("."), [layer], columns, LARGEST_CONTEXT, kind.element)


def _attributes(kind: NodeKind) -> dict[str, int | float]:
    return {
        "layer": 0,
        "num_heads": kind.num_heads,
        "num_kv_heads": kind.num_kv_heads,
        "head_size": kind.head_size,
        "scale": kind.scale,
        "window": kind.window,
        "softcap": kind.softcap,
    }


def _calibration(kind: NodeKind) -> dict[str, float | None]:
    absmax = kind.absmax or None
    return {"key_absmax": absmax, "value_absmax": absmax}


def cuda_graph(kind: NodeKind) -> bytes:
    """The node lowered for CUDA, as a model's bytes."""
    from pipelines.inference.backends.onnxruntime.cuda.lowering import lower_for_cuda

    lowered = lower_for_cuda(node_decoder(kind), kind.block_tokens, kind.cache)
    return bytes(ir.to_proto(lowered).SerializeToString())


def cache_scales(kind: NodeKind) -> tuple[float, float]:
    """The scales of stored keys and values; 1 when the cache is not quantized."""
    from pipelines.inference.backends.onnxruntime.cuda.lowering import QUANTIZED_RANGE, quantization_scale

    if kind.cache not in QUANTIZED_RANGE:
        return 1.0, 1.0
    scale = quantization_scale(kind.cache, kind.absmax or None)
    return scale, scale
