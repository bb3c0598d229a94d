"""Lowers a decoder in Braid's ONNX format to ONNX Runtime's CUDA PagedAttention.

The choices follow the schema of `com.microsoft::PagedAttention` (ONNX Runtime >= 1.30).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from pipelines.inference.backends.onnx.block_sums import multiply_block_sums
from pipelines.inference.backends.onnx.decoder_model import DecoderModel
from pipelines.inference.backends.onnx.expert_linears import use_expert_linears
from pipelines.inference.backends.onnx.recurrent import find_recurrent
from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import (
    ELEMENTS,
    QUANTIZED_RANGE,
    LoraLinear,
    LoweredDecoder,
)
from pipelines.inference.backends.onnxruntime.cuda.recurrent import check_states, lower_states, state_shapes
from pipelines.inference.backends.onnxruntime.graph_writer import (
    GraphWriter,
    add_batch_axis,
    declare_step_inputs,
)
from pipelines.inference.backends.onnxruntime.step_input_names import CUMULATIVE, METADATA, PAST, SLOTS, TABLE
from pipelines.inference.backends.onnxruntime.widened_e2m1 import widen_e2m1
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.onnx_format.decoder_format import ATTENTION, DOMAIN, SIDES, SINKS, AttentionLayer

CONTRIB = "com.microsoft"
NUM_INPUTS = 17
"""Inputs in PagedAttention's schema since ONNX Runtime 1.30; an absent optional input is an empty name."""

BY_HEAD = [0, 2, 1, 3]
"""From [1, tokens, heads, size] to [1, heads, tokens, size], and back."""
MODEL_TYPES = {"f32": ir.DataType.FLOAT16, "f16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}
"""The export's type → the type in which attention is computed.  The schema allows T only float16 and
bfloat16, so queries, keys and values of a float32 export are cast around the node, and nothing else is.
"""
CACHE_TYPES = {name: ir.DataType(ELEMENTS[name].number) for name in ("f16", "bf16", "i8", "f8")}
UNCAPTURABLE = frozenset({"GatherND", "ScatterND", "NonZero", "Unique", "Compress"})
"""Operators whose CUDA kernels copy numbers from memory that is freed before a graph is replayed, or wait
for numbers from the device.  ONNX Runtime captures them all the same; the replay computes something
else.
"""
HEADROOM = 1.1
"""How far beyond the calibrated maximum a scale reaches.  Calibration uses few prompts, and a clamped key
changes the attention, while a step 10 % coarser is a tenth of a bit of int8 and nothing of float8.
"""


XQA_BLOCK_TOKENS = 128
"""The page size for which XQA, the decode kernel for quantized caches, is compiled; blocks are a multiple
of it.
"""


def block_tokens_for(layers: Iterable[AttentionLayer], cache: str) -> int:
    """Tokens in a block, so that the fastest kernels accept the cache.

    FlashAttention reads tiles of 256 keys for heads of up to 64 numbers, of 128 up to 128, else of 64, and a
    tile must not straddle two blocks.  It does not read quantized blocks: there XQA decides.
    """
    if cache in QUANTIZED_RANGE:
        return XQA_BLOCK_TOKENS
    return max(256 if layer.head_size <= 64 else 128 if layer.head_size <= 128 else 64 for layer in layers)


def choose_cache(decoder: DecoderModel, kv_cache: str | None) -> str:
    """The cache's element type: the requested one, or the export's own.  Raises `ModelError`.

    A cache that is not quantized has the type of the attention: the operator has no other kernels.
    """
    if kv_cache is None:
        return "bf16" if decoder.element_type == "bf16" else "f16"
    if kv_cache not in CACHE_TYPES:
        raise ModelError(f"kv_cache {kv_cache}: a cache on cuda is one of {', '.join(CACHE_TYPES)}.")
    if kv_cache in ("f16", "bf16") and decoder.element_type not in ("f32", kv_cache):
        raise ModelError(
            f"kv_cache {kv_cache}: this export computes in {decoder.element_type}, and so does its cache "
            f"unless it is i8 or f8; remove the line, or export with --weights {kv_cache}."
        )
    if kv_cache == "i8":
        _check_calibrated(decoder.layers)
    return kv_cache


def check_computed(decoder: DecoderModel) -> None:
    """Raise `ModelError` for a decoder that no GPU computes, whatever is installed."""
    if decoder.encoder_hidden_size:
        raise ModelError(
            "it attends to the frames of an encoder, which is not computed on cuda yet; write `device: cpu`, "
            "and serve without --device and BRAID_DEVICE."
        )
    if decoder.images.embeds_size:
        raise ModelError(
            "it reads images, which is not computed on cuda yet; write `device: cpu`, and serve without "
            "--device and BRAID_DEVICE."
        )
    check_states(find_recurrent(decoder.model.graph))
    if any(layer.has_bias or layer.has_slopes for layer in decoder.layers):
        raise ModelError(
            "its attention adds a bias by distance to scores, which is not computed on cuda; write "
            "`device: cpu`."
        )


def lower(
    decoder: DecoderModel, kv_cache: str | None = None, adapted: tuple[LoraLinear, ...] = ()
) -> LoweredDecoder:
    """Lower the decoder, in which the linear layers `adapted` have room for adapters, for a session.  Raises
    `ModelError`.
    """
    check_computed(decoder)
    cache = choose_cache(decoder, kv_cache)
    block_tokens = block_tokens_for(decoder.layers, cache)
    model = lower_for_cuda(decoder, block_tokens, cache)
    return LoweredDecoder(
        model=ir.to_proto(model).SerializeToString(),
        folder=decoder.folder,
        layers=tuple(decoder.layers),
        vocab_size=decoder.vocab_size,
        max_context=decoder.max_context,
        element_type=decoder.element_type,
        block_tokens=block_tokens,
        kv_cache=cache,
        gathers=cache in QUANTIZED_RANGE,
        uncapturable=tuple(uncapturable(model)),
        adapted=adapted,
        state_shapes=state_shapes(find_recurrent(decoder.model.graph)),
    )


def uncapturable(model: ir.Model) -> list[str]:
    """The operators of a model that a CUDA graph would not replay correctly, by name."""
    return sorted({node.op_type for node in model.graph if not node.domain and _is_uncapturable(node)})


def _is_uncapturable(node: ir.Node) -> bool:
    """Whether a CUDA graph cannot replay a node, such as a Split whose sizes the graph computes."""
    if node.op_type == "Split" and len(node.inputs) > 1 and node.inputs[1] is not None:
        return not node.inputs[1].is_initializer()
    return node.op_type in UNCAPTURABLE


def lower_for_cuda(decoder: DecoderModel, block_tokens: int, kv_cache: str | None = None) -> ir.Model:
    """A copy of the model with PagedAttention over bound pools; weights are shared, not copied.

    Inputs: input_ids, position_ids int64[T] · cumulative_sequence_length int32[B + 1] · past_seqlens int32[B]
    · block_table int32[B, W] · slot_mapping int32[T] · attention_metadata int32[3] in CPU memory ·
    logits_indices int64[N] · key_cache.{i}, value_cache.{i} [num_blocks, block_tokens, num_kv_heads,
    head_size]; and those of recurrent states (`recurrent.py`).  Output: logits float32[N, vocab].

    The caches have no outputs: the schema updates them in place and allows key_cache_out and value_cache_out
    to be absent.  No node computes a shape, so that all nodes run on the device and a graph can be captured.
    Raises `ModelError`.
    """
    _check_heads(decoder.layers)
    cache = choose_cache(decoder, kv_cache)
    model = decoder.model.clone()
    _Lowering(model.graph, decoder, block_tokens, cache).run()
    RemoveUnusedNodesPass()(model)
    return model


class _Lowering:
    """One pass over one graph; `inputs` are the step's values that every attention node reads."""

    def __init__(self, graph: ir.Graph, decoder: DecoderModel, block_tokens: int, cache: str) -> None:
        self.graph = graph
        self.layers = {layer.layer: layer for layer in decoder.layers}
        self.block_tokens = block_tokens
        self.cache = cache
        self.casts = decoder.element_type == "f32"
        computes = "bf16" if cache == "bf16" else decoder.element_type
        self.model_type = MODEL_TYPES[computes]
        self.writer = GraphWriter(graph)
        self.inputs: dict[str, ir.Value] = {}

    def run(self) -> None:
        use_expert_linears(self.graph)
        widen_e2m1(self.graph)
        multiply_block_sums(self.graph)
        self._declare_inputs()
        for node in list(self.graph):
            if (node.domain, node.op_type) == (DOMAIN, ATTENTION):
                self._replace(node)
        lower_states(self.writer, find_recurrent(self.graph))
        del self.graph.opset_imports[DOMAIN]
        self.graph.opset_imports[CONTRIB] = 1

    # Inputs

    def _declare_inputs(self) -> None:
        self.inputs = declare_step_inputs(self.graph)
        add_batch_axis(self.writer, self.inputs)
        self.writer.insert_before(self.graph[0])
        self._input(METADATA, ir.DataType.INT32, [3])
        for number, layer in sorted(self.layers.items()):
            shape: list[str | int] = ["num_blocks", self.block_tokens, layer.num_kv_heads, layer.head_size]
            for kind in SIDES:
                self._input(f"{kind}_cache.{number}", CACHE_TYPES[self.cache], shape)

    def _input(self, name: str, dtype: ir.DataType, shape: Sequence[str | int]) -> None:
        self.inputs[name] = ir.val(name, dtype, ir.Shape(shape))
        self.graph.inputs.append(self.inputs[name])

    # Attention

    def _replace(self, node: ir.Node) -> None:
        layer = self.layers[node.attributes["layer"].as_int()]
        counts = (layer.num_heads, layer.num_kv_heads, layer.num_kv_heads)
        flat = [
            self._flatten(value, heads, layer.head_size)
            for value, heads in zip(node.inputs[:3], counts, strict=True)
        ]
        attended = self._attention(layer, flat, node.inputs[SINKS] if layer.has_sinks else None)
        self.writer.replace(node, self._unflatten(attended, layer))

    def _flatten(self, value: ir.Value | None, heads: int, size: int) -> ir.Value:
        """[1, heads, T, size] → [T, heads * size], in the type in which attention is computed."""
        assert value is not None, "the format's attention has three inputs"
        rows = self._by_token(value, heads, size)
        rows = self.writer.op("Reshape", rows, self.writer.ints(-1, heads * size))
        return self.writer.op("Cast", rows, to=self.model_type) if self.casts else rows

    def _by_token(self, value: ir.Value, heads: int, size: int) -> ir.Value:
        """Reorders numbers token by token, to [1, T, heads, size] or [1, T, heads * size].

        When `value` comes from a transpose, with or without rotary embedding after it, the transpose's input
        is used instead: RotaryEmbedding accepts both layouts, and two transposes less per tensor is a good
        part of the kernel launches of a decode step.
        """
        rows, rotation = _untransposed(value), value.producer()
        if rows is not None:
            return rows
        if _is(rotation, "RotaryEmbedding") and (rows := _untransposed(rotation.inputs[0])) is not None:
            flat = self.writer.op("Reshape", rows, self.writer.ints(1, -1, heads * size))
            attributes = {name: attribute.value for name, attribute in rotation.attributes.items()}
            inputs = [flat, *rotation.inputs[1:]]
            return self.writer.op("RotaryEmbedding", *inputs, **attributes | {"num_heads": heads})
        return self.writer.op("Transpose", value, perm=BY_HEAD)

    def _unflatten(self, rows: ir.Value, layer: AttentionLayer) -> ir.Value:
        if self.casts:
            rows = self.writer.op("Cast", rows, to=ir.DataType.FLOAT)
        shape = [1, -1, layer.num_heads, layer.head_size]
        rows = self.writer.op("Reshape", rows, self.writer.ints(*shape))
        return self.writer.op("Transpose", rows, perm=BY_HEAD)

    def _attention(self, layer: AttentionLayer, flat: list[ir.Value], sinks: ir.Value | None) -> ir.Value:
        """Add the node with its inputs at the schema's positions.

        8, 9 cos and sin are absent: rotary embedding is already applied.  10 slot_mapping: "a value of -1
        skips the cache write".  11 head_sink is of the queries' type.  12, 13 norms are absent.  16
        attention_metadata: without it the op copies lengths back "synchronizing the stream on every call".
        """
        caches = [self.inputs[f"{kind}_cache.{layer.layer}"] for kind in SIDES]
        step = [self.inputs[name] for name in (CUMULATIVE, PAST, TABLE)]
        inputs: list[ir.Value | None] = [*flat, *caches, *step, None, None, self.inputs[SLOTS]]
        inputs += [self._sinks(layer, sinks), None, None, *self._scales(layer), self.inputs[METADATA]]
        assert len(inputs) == NUM_INPUTS
        return self.writer.op("PagedAttention", *inputs, domain=CONTRIB, **self._attributes(layer))

    def _sinks(self, layer: AttentionLayer, sinks: ir.Value | None) -> ir.Value | None:
        if sinks is None or sinks.const_value is None:
            return None
        values = sinks.const_value.numpy().astype(self.model_type.numpy())
        return self.writer.constant(f"sinks.{layer.layer}", values)

    def _attributes(self, layer: AttentionLayer) -> dict[str, Any]:
        """`scale` multiplies before `softcap` in both.  `local_window_size` is the format's window unchanged.

        The schema calls local_window_size a "left_window_size", but the kernels pass `local_window_size - 1`
        tokens to the left of the query to FlashAttention, and elsewhere mask keys before `kv_len -
        local_window_size`: it includes the query itself, as the format's window.  -1 is no limit in both.
        """
        quantized = self.cache in QUANTIZED_RANGE
        return {
            "num_heads": layer.num_heads,
            "kv_num_heads": layer.num_kv_heads,
            "scale": float(layer.scale),
            "softcap": float(layer.softcap),
            "local_window_size": int(layer.window) if layer.window > 0 else -1,
        } | ({"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"} if quantized else {})

    def _scales(self, layer: AttentionLayer) -> list[ir.Value | None]:
        """k_scale and v_scale, float32[1] for PER_TENSOR; they "must not be provided" otherwise.

        One scale per tensor and not per channel, because the fastest decode kernel then needs no extra pass
        over queries and output, and calibration has to estimate one number.
        """
        if self.cache not in QUANTIZED_RANGE:
            return [None, None]
        pairs = (("key", layer.key_absmax), ("value", layer.value_absmax))
        return [
            self.writer.constant(f"{kind}_scale.{layer.layer}", self._scale(absmax)) for kind, absmax in pairs
        ]

    def _scale(self, absmax: float | None) -> np.ndarray:
        return np.array([quantization_scale(self.cache, absmax)], np.float32)


def quantization_scale(cache: str, absmax: float | None) -> float:
    """The factor from a stored number to a key or value.

    Uncalibrated float8 has the scale 1: e4m3 has 448 as its largest number and three bits of mantissa down to
    2**-6, which keys and values of common models fit.
    """
    if not absmax:
        return 1.0
    return absmax * HEADROOM / QUANTIZED_RANGE[cache]


def _is(node: ir.Node | None, op_type: str) -> TypeGuard[ir.Node]:
    return node is not None and (node.domain, node.op_type) == ("", op_type)


def _untransposed(value: ir.Value | None) -> ir.Value | None:
    """The input of the transpose that put the heads of `value` first; None when there is none."""
    made = None if value is None else value.producer()
    if _is(made, "Transpose") and list(made.attributes["perm"].as_ints()) == BY_HEAD:
        return made.inputs[0]
    return None


def _check_calibrated(layers: Iterable[AttentionLayer]) -> None:
    """Raise `ModelError` unless the layers are calibrated: int8 needs the largest key and value for its
    scale.
    """
    if not all(layer.key_absmax and layer.value_absmax for layer in layers):
        raise ModelError(
            "kv_cache i8: this export has no calibration of its keys and values; export it with "
            "braid export HF_FOLDER --format onnx, which calibrates them, or use kv_cache f8."
        )


def _check_heads(layers: Iterable[AttentionLayer]) -> None:
    for layer in layers:
        if layer.head_size % 8:
            raise ModelError(
                f"layer {layer.layer} has heads of {layer.head_size} numbers; PagedAttention on cuda takes "
                "multiples of 8."
            )
