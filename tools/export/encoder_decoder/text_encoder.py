"""Writes the encoder of texts of an encoder-decoder model as a plain ONNX file, from its weights.

inputs    input_ids, attention_mask int64[num_texts, width]
output    last_hidden_state float32[num_texts, width, size]
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir

from pipelines.onnx_format.onnx_writer import OnnxWriter
from tools.export.encoder_decoder.encoder_layers import EncoderLayers
from tools.export.encoder_decoder.form import Buckets, SideForm
from tools.export.encoder_decoder.layers import LayerWriter, Weights
from tools.export.encoder_decoder.relative_bias import RELATIVE, bias_both_ways

F32, INT64 = ir.DataType.FLOAT, ir.DataType.INT64
OUT_OF_SIGHT = 1e9
"""What the score of a padding token is lowered by."""


def write_text_encoder(weights: Weights, form: SideForm, folder: Path, name: str = "encoder") -> None:
    """Write `name`.onnx and its data to `folder`, in float32.

    KeyError for a weight that is missing, ValueError for one of another shape.
    """
    with OnnxWriter(folder, name) as writer:
        _TextEncoder(weights, form, writer).write()


class _TextEncoder:
    def __init__(self, weights: Weights, form: SideForm, writer: OnnxWriter) -> None:
        self._weights, self._form = weights, form
        self._writer, self._op, self._layer_writer = writer, writer.op, LayerWriter(weights, writer, form)

    def write(self) -> None:
        form = self._form
        ids, mask = (ir.val(name, INT64, ["num_texts", "width"]) for name in ("input_ids", "attention_mask"))
        width = self._op("Shape", ids, start=1)
        hidden = self._hidden(mask)
        if form.relative is not None:
            hidden = self._op("Add", hidden, self._bias(width, form.relative))
        layers = EncoderLayers(self._layer_writer, self._writer, form)
        state = layers.write(self._embedded(ids, width), hidden)
        state.name, state.dtype = "last_hidden_state", F32
        state.shape = ir.Shape(["num_texts", "width", form.width])
        self._writer.save([ids, mask], [state], "encoder")

    def _embedded(self, ids: ir.Value, width: ir.Value) -> ir.Value:
        form, zero = self._form, self._writer.ints(0)
        name = f"{form.prefix}embed_tokens.weight"
        table = self._layer_writer.store(name, form.vocabulary, form.width)
        return self._layer_writer.embed(
            ids, table, lambda places: self._op("Slice", places, zero, width, zero)
        )

    def _hidden(self, mask: ir.Value) -> ir.Value:
        """float32[num_texts, 1, 1, width]: 0 for a token, far below it for padding."""
        op, number = self._op, self._writer.number
        seen = op("Unsqueeze", op("Cast", mask, to=F32), self._writer.ints(1, 2))
        return op("Mul", op("Sub", seen, number(1.0)), number(OUT_OF_SIGHT))

    def _bias(self, width: ir.Value, buckets: Buckets) -> ir.Value:
        """float32[heads, width, width], by the distance from each row to each other."""
        op, ints = self._op, self._writer.ints
        weight = np.asarray(self._weights[f"{self._form.prefix}{RELATIVE}"])
        table = self._writer.store("bias_by_distance", bias_both_ways(weight, buckets))
        zero, step = (self._writer.store(f"scalar.{number}", np.array(number, np.int64)) for number in (0, 1))
        places = op("Range", zero, op("Squeeze", width, ints(0)), step)
        ahead = op("Sub", op("Unsqueeze", places, ints(0)), op("Unsqueeze", places, ints(1)))
        farthest = self._writer.store("farthest", np.array(buckets.farthest, np.int64))
        nearest = self._writer.store("nearest", np.array(-buckets.farthest, np.int64))
        return op("Gather", table, op("Add", op("Clip", ahead, nearest, farthest), farthest), axis=1)
