"""Writes the decoder of a Whisper model in Braid's ONNX format, from its plain weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir

from pipelines.gguf.onnx_writer import OnnxWriter
from pipelines.host.backends.onnx.decoder_format import (
    ATTENTION,
    CONTEXT_ATTENTION,
    CONTEXT_FRAMES,
    DOMAIN,
    INPUT_IDS,
    LOGITS,
    LOGITS_INDICES,
    POSITION_IDS,
)
from pipelines.whisper.layers import LayerWriter, Weights

F32, INT64 = ir.DataType.FLOAT, ir.DataType.INT64
HEADS_FIRST = [0, 2, 1, 3]
PREFIX = "model.decoder."


def write_decoder(weights: Weights, config: Mapping[str, Any], folder: Path, name: str = "decoder") -> None:
    """Write `name`.onnx and its data to `folder`: embeddings, layers with two attentions each, and the head.

    `weights` have the names and `config` the fields of Hugging Face's Whisper.  KeyError for a weight that
    is missing, ValueError for one of another shape.
    """
    with OnnxWriter(folder, name) as writer:
        _WhisperDecoder(weights, config, writer).write()


class _WhisperDecoder:
    def __init__(self, weights: Weights, config: Mapping[str, Any], writer: OnnxWriter) -> None:
        self._writer, self._op, self._layer_writer = writer, writer.op, LayerWriter(weights, writer)
        self._width = int(config["d_model"])
        self._heads = int(config["decoder_attention_heads"])
        self._layers = int(config["decoder_layers"])
        self._size = self._width // self._heads
        self._inner = int(config["decoder_ffn_dim"])
        self._max_context = int(config["max_target_positions"])
        self._vocabulary = int(config["vocab_size"])
        self._has_head = "proj_out.weight" in weights

    def write(self) -> None:
        op = self._op
        ids = ir.val(INPUT_IDS, INT64, [1, "num_tokens"])
        positions = ir.val(POSITION_IDS, INT64, [1, "num_tokens"])
        rows = ir.val(LOGITS_INDICES, INT64, ["num_logits"])
        frames = ir.val(CONTEXT_FRAMES, F32, [1, "num_frames", self._width])
        store = self._layer_writer.store
        table = store(f"{PREFIX}embed_tokens.weight", self._vocabulary, self._width)
        places = store(f"{PREFIX}embed_positions.weight", self._max_context, self._width)
        state = op("Add", op("Gather", table, ids), op("Gather", places, positions))
        state.dtype, state.shape = F32, ir.Shape([1, "num_tokens", self._width])
        for layer in range(self._layers):
            state = self._layer(layer, state, frames)
        taken = op("Gather", op("Squeeze", state, self._writer.ints(0)), rows)
        head = store("proj_out.weight", self._vocabulary, self._width) if self._has_head else table
        logits = op("Gemm", self._norm(taken, f"{PREFIX}layer_norm"), head, transB=1)
        logits.name, logits.dtype = LOGITS, F32
        logits.shape = ir.Shape(["num_logits", self._vocabulary])
        self._writer.save([ids, positions, rows, frames], [logits], "whisper")

    def _layer(self, layer: int, state: ir.Value, frames: ir.Value) -> ir.Value:
        op, at = self._op, f"{PREFIX}layers.{layer}."
        for name, kind, more in (
            ("self_attn", ATTENTION, {"window": -1, "softcap": 0.0}),
            ("encoder_attn", CONTEXT_ATTENTION, {}),
        ):
            read = self._norm(state, f"{at}{name}_layer_norm")
            seen = read if kind == ATTENTION else frames
            attended = self._attend(layer, f"{at}{name}", kind, read, seen, **more)
            state = op("Add", state, attended)
        linear, width, inner = self._layer_writer.linear, self._width, self._inner
        fed = linear(self._norm(state, f"{at}final_layer_norm"), f"{at}fc1", inner, width)
        return op("Add", state, linear(op("Gelu", fed), f"{at}fc2", width, inner))

    def _attend(
        self, layer: int, at: str, kind: str, read: ir.Value, seen: ir.Value, **more: Any
    ) -> ir.Value:
        """`read` attends to what is `seen`: the tokens themselves, or the encoder's frames."""
        attended = self._op(
            kind,
            self._split_heads(self._linear(read, f"{at}.q_proj"), "num_tokens"),
            *(self._split_heads(self._linear(seen, f"{at}.{side}_proj"), "num_seen") for side in "kv"),
            domain=DOMAIN,
            layer=layer,
            num_heads=self._heads,
            num_kv_heads=self._heads,
            head_size=self._size,
            scale=self._size**-0.5,
            **more,
        )
        attended.dtype, attended.shape = F32, ir.Shape([1, self._heads, "num_tokens", self._size])
        rows = self._op("Transpose", attended, perm=HEADS_FIRST)
        flat = self._op("Reshape", rows, self._writer.ints(1, -1, self._width))
        return self._linear(flat, f"{at}.out_proj")

    def _split_heads(self, rows: ir.Value, num_rows: str) -> ir.Value:
        split = self._op("Reshape", rows, self._writer.ints(1, -1, self._heads, self._size))
        heads = self._op("Transpose", split, perm=HEADS_FIRST)
        heads.dtype, heads.shape = F32, ir.Shape([1, self._heads, num_rows, self._size])
        return heads

    def _linear(self, rows: ir.Value, name: str) -> ir.Value:
        return self._layer_writer.linear(rows, name, self._width, self._width)

    def _norm(self, rows: ir.Value, name: str) -> ir.Value:
        return self._layer_writer.norm(rows, name, self._width)
