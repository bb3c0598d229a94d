"""Writes the layers of an encoder, in which every row attends to every other, as plain ONNX nodes."""

from __future__ import annotations

import onnx_ir as ir

from pipelines.onnx_format.onnx_writer import OnnxWriter
from tools.export.encoder_decoder.form import SideForm
from tools.export.encoder_decoder.layers import HEADS_FIRST, LayerWriter

KEYS_LAST = [0, 2, 3, 1]


class EncoderLayers:
    """State float32[num_texts, rows, width] → the same; `hidden` is added to the scores where it is given."""

    def __init__(self, layer_writer: LayerWriter, writer: OnnxWriter, form: SideForm) -> None:
        self._layer_writer, self._writer, self._op, self._form = layer_writer, writer, writer.op, form

    def write(self, state: ir.Value, hidden: ir.Value | None = None) -> ir.Value:
        for layer in range(self._form.layers):
            state = self._layer(f"{self._form.prefix}layers.{layer}.", state, hidden)
        return (
            self._layer_writer.norm(state, f"{self._form.prefix}layer_norm")
            if self._form.final_norm
            else state
        )

    def _layer(self, at: str, state: ir.Value, hidden: ir.Value | None) -> ir.Value:
        part, feed_forward = self._layer_writer.part, self._layer_writer.feed_forward
        state = part(
            state,
            f"{at}self_attn_layer_norm",
            lambda read: self._attended(f"{at}self_attn.", read, hidden),
        )
        return part(state, f"{at}final_layer_norm", lambda read: feed_forward(read, at))

    def _attended(self, at: str, read: ir.Value, hidden: ir.Value | None) -> ir.Value:
        op, form = self._op, self._form
        query, key, value = (
            self._split_heads(
                self._layer_writer.linear(read, f"{at}{name}_proj", form.attended, form.width), order
            )
            for name, order in (("q", HEADS_FIRST), ("k", KEYS_LAST), ("v", HEADS_FIRST))
        )
        scores = op("MatMul", op("Mul", query, self._writer.number(form.score_scale)), key)
        if hidden is not None:
            scores = op("Add", scores, hidden)
        weighted = op("MatMul", op("Softmax", scores, axis=-1), value)
        joined = op("Transpose", weighted, perm=HEADS_FIRST)
        flat = op("Reshape", joined, self._writer.ints(0, 0, form.attended))
        return self._layer_writer.linear(flat, f"{at}out_proj", form.width, form.attended)

    def _split_heads(self, rows: ir.Value, order: list[int]) -> ir.Value:
        split = self._op("Reshape", rows, self._writer.ints(0, 0, self._form.heads, -1))
        return self._op("Transpose", split, perm=order)
