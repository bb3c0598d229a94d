"""Writes the encoder of a Whisper model as a plain ONNX file, from its weights.

input     input_features float32[num_windows, mels, 2 · frames]
output    last_hidden_state float32[num_windows, frames, width]
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir

from pipelines.onnx_format.onnx_writer import OnnxWriter
from tools.export.encoder_decoder.encoder_layers import EncoderLayers
from tools.export.encoder_decoder.form import SideForm
from tools.export.encoder_decoder.layers import LayerWriter, Weights

F32 = ir.DataType.FLOAT
INPUT, OUTPUT = "input_features", "last_hidden_state"


def write_encoder(weights: Weights, config: Mapping[str, Any], folder: Path, name: str = "encoder") -> None:
    """Write `name`.onnx and its data to `folder`, in float32.

    `weights` have the names and `config` the fields of Hugging Face's Whisper.  KeyError for a weight that
    is missing, ValueError for one of another shape.
    """
    with OnnxWriter(folder, name) as writer:
        _Encoder(weights, config, writer).write()


class _Encoder:
    def __init__(self, weights: Weights, config: Mapping[str, Any], writer: OnnxWriter) -> None:
        self._form = _form(config)
        self._writer, self._op = writer, writer.op
        self._layer_writer = LayerWriter(weights, writer, self._form)
        self._mels = int(config["num_mel_bins"])

    def write(self) -> None:
        op, form = self._op, self._form
        features = ir.val(INPUT, F32, ["num_windows", self._mels, 2 * form.max_context])
        state = self._convolved(features, "conv1", self._mels, stride=1)
        state = self._convolved(state, "conv2", form.width, stride=2)
        places = self._layer_writer.store(
            f"{form.prefix}embed_positions.weight", form.max_context, form.width
        )
        state = op("Add", op("Transpose", state, perm=[0, 2, 1]), places)
        state = EncoderLayers(self._layer_writer, self._writer, form).write(state)
        state.name, state.dtype = OUTPUT, F32
        state.shape = ir.Shape(["num_windows", form.max_context, form.width])
        self._writer.save([features], [state], "whisper_encoder")

    def _convolved(self, state: ir.Value, name: str, inner: int, stride: int) -> ir.Value:
        at = f"{self._form.prefix}{name}"
        weight = self._layer_writer.store(f"{at}.weight", self._form.width, inner, 3)
        bias = self._layer_writer.store(f"{at}.bias", self._form.width)
        sizes: dict[str, Any] = {"kernel_shape": [3], "pads": [1, 1], "strides": [stride]}
        return self._op("Gelu", self._op("Conv", state, weight, bias, **sizes))


def _form(config: Mapping[str, Any]) -> SideForm:
    width, heads = int(config["d_model"]), int(config["encoder_attention_heads"])
    return SideForm(
        side="encoder",
        width=width,
        heads=heads,
        head_size=width // heads,
        layers=int(config["encoder_layers"]),
        inner=int(config["encoder_ffn_dim"]),
        max_context=int(config["max_source_positions"]),
        vocabulary=0,
    )
