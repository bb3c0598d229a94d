"""Writes the encoder of a Whisper model as a plain ONNX file, from its weights.

input     input_features float32[num_windows, mels, 2 · frames]
output    last_hidden_state float32[num_windows, frames, width]
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir

from pipelines.gguf.onnx_writer import OnnxWriter
from pipelines.whisper.layers import LayerWriter, Weights

F32 = ir.DataType.FLOAT
INPUT, OUTPUT = "input_features", "last_hidden_state"
HEADS_FIRST, KEYS_LAST = [0, 2, 1, 3], [0, 2, 3, 1]
PREFIX = "model.encoder."


def write_encoder(weights: Weights, config: Mapping[str, Any], folder: Path, name: str = "encoder") -> None:
    """Write `name`.onnx and its data to `folder`, in float32.

    `weights` have the names and `config` the fields of Hugging Face's Whisper.  KeyError for a weight that
    is missing, ValueError for one of another shape.
    """
    with OnnxWriter(folder, name) as writer:
        _Encoder(weights, config, writer).write()


class _Encoder:
    def __init__(self, weights: Weights, config: Mapping[str, Any], writer: OnnxWriter) -> None:
        self._writer, self._op, self._layer_writer = writer, writer.op, LayerWriter(weights, writer)
        self._width, self._heads = int(config["d_model"]), int(config["encoder_attention_heads"])
        self._layers, self._inner = int(config["encoder_layers"]), int(config["encoder_ffn_dim"])
        self._mels, self._frames = int(config["num_mel_bins"]), int(config["max_source_positions"])

    def write(self) -> None:
        op, width = self._op, self._width
        features = ir.val(INPUT, F32, ["num_windows", self._mels, 2 * self._frames])
        state = self._convolved(features, "conv1", self._mels, stride=1)
        state = self._convolved(state, "conv2", width, stride=2)
        places = self._layer_writer.store(f"{PREFIX}embed_positions.weight", self._frames, width)
        state = op("Add", op("Transpose", state, perm=[0, 2, 1]), places)
        for layer in range(self._layers):
            state = self._layer(f"{PREFIX}layers.{layer}.", state)
        state = self._norm(state, f"{PREFIX}layer_norm")
        state.name, state.dtype = OUTPUT, F32
        state.shape = ir.Shape(["num_windows", self._frames, width])
        self._writer.save([features], [state], "whisper_encoder")

    def _convolved(self, state: ir.Value, name: str, inner: int, stride: int) -> ir.Value:
        at = f"{PREFIX}{name}"
        weight = self._layer_writer.store(f"{at}.weight", self._width, inner, 3)
        bias = self._layer_writer.store(f"{at}.bias", self._width)
        sizes: dict[str, Any] = {"kernel_shape": [3], "pads": [1, 1], "strides": [stride]}
        return self._op("Gelu", self._op("Conv", state, weight, bias, **sizes))

    def _layer(self, at: str, state: ir.Value) -> ir.Value:
        op = self._op
        read = self._norm(state, f"{at}self_attn_layer_norm")
        state = op("Add", state, self._attended(f"{at}self_attn.", read))
        read = self._norm(state, f"{at}final_layer_norm")
        fed = op("Gelu", self._linear(read, f"{at}fc1", self._inner, self._width))
        return op("Add", state, self._linear(fed, f"{at}fc2", self._width, self._inner))

    def _attended(self, at: str, read: ir.Value) -> ir.Value:
        op, width = self._op, self._width
        query, key, value = (
            self._split_heads(self._linear(read, f"{at}{name}_proj", width, width), order)
            for name, order in (("q", HEADS_FIRST), ("k", KEYS_LAST), ("v", HEADS_FIRST))
        )
        scaled = op("Mul", query, self._writer.number((width // self._heads) ** -0.5))
        shares = op("Softmax", op("MatMul", scaled, key), axis=-1)
        joined = op("Transpose", op("MatMul", shares, value), perm=HEADS_FIRST)
        flat = op("Reshape", joined, self._writer.ints(0, 0, width))
        return self._linear(flat, f"{at}out_proj", width, width)

    def _split_heads(self, rows: ir.Value, order: list[int]) -> ir.Value:
        split = self._op("Reshape", rows, self._writer.ints(0, 0, self._heads, -1))
        return self._op("Transpose", split, perm=order)

    def _linear(self, rows: ir.Value, name: str, outer: int, inner: int) -> ir.Value:
        return self._layer_writer.linear(rows, name, outer, inner)

    def _norm(self, rows: ir.Value, name: str) -> ir.Value:
        return self._layer_writer.norm(rows, name, self._width)
