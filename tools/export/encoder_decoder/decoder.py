"""Writes the decoder of an encoder-decoder model in Braid's ONNX format, from its plain weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from pipelines.onnx_format.decoder_format import (
    ATTENTION,
    CONTEXT_ATTENTION,
    CONTEXT_FRAMES,
    DOMAIN,
    INPUT_IDS,
    LOGITS,
    LOGITS_INDICES,
    POSITION_IDS,
)
from pipelines.onnx_format.onnx_writer import OnnxWriter
from tools.export.encoder_decoder.form import SideForm
from tools.export.encoder_decoder.layers import HEADS_FIRST, LayerWriter, Weights
from tools.export.encoder_decoder.relative_bias import RELATIVE, bias_backwards

F32, INT64 = ir.DataType.FLOAT, ir.DataType.INT64
HEAD, HEAD_BIAS = "proj_out.weight", "final_logits_bias"


def write_decoder(weights: Weights, form: SideForm, folder: Path, name: str = "decoder") -> None:
    """Write `name`.onnx and its data to `folder`: embeddings, layers with two attentions each, and the head.

    Without a head of its own the table of embeddings is the head.  KeyError for a weight that is missing,
    ValueError for one of another shape.
    """
    with OnnxWriter(folder, name) as writer:
        _DecoderWriter(weights, form, writer).write()


class _DecoderWriter:
    def __init__(self, weights: Weights, form: SideForm, writer: OnnxWriter) -> None:
        self._weights, self._form = weights, form
        self._writer, self._op, self._layer_writer = writer, writer.op, LayerWriter(weights, writer, form)

    def write(self) -> None:
        form, op, store = self._form, self._op, self._layer_writer.store
        ids = ir.val(INPUT_IDS, INT64, [1, "num_tokens"])
        positions = ir.val(POSITION_IDS, INT64, [1, "num_tokens"])
        rows = ir.val(LOGITS_INDICES, INT64, ["num_logits"])
        frames = ir.val(CONTEXT_FRAMES, F32, [1, "num_frames", form.width])
        table = store(f"{form.prefix}embed_tokens.weight", form.vocabulary, form.width)
        state = self._embedded(ids, positions, table)
        for layer in range(form.layers):
            state = self._layer(layer, state, frames)
        taken = op("Gather", op("Squeeze", state, self._writer.ints(0)), rows)
        logits = self._logits(taken, table)
        logits.name, logits.dtype = LOGITS, F32
        logits.shape = ir.Shape(["num_logits", form.vocabulary])
        self._writer.save([ids, positions, rows, frames], [logits], "decoder")

    def _embedded(self, ids: ir.Value, positions: ir.Value, table: ir.Value) -> ir.Value:
        state = self._layer_writer.embed(ids, table, lambda places: self._op("Gather", places, positions))
        state.dtype, state.shape = F32, ir.Shape([1, "num_tokens", self._form.width])
        return state

    def _logits(self, taken: ir.Value, table: ir.Value) -> ir.Value:
        form, store = self._form, self._layer_writer.store
        if form.final_norm:
            taken = self._layer_writer.norm(taken, f"{form.prefix}layer_norm")
        if form.head_scale != 1:
            taken = self._op("Mul", taken, self._writer.number(form.head_scale))
        head = store(HEAD, form.vocabulary, form.width) if HEAD in self._weights else table
        bias = [store(HEAD_BIAS, form.vocabulary)] if HEAD_BIAS in self._weights else []
        return self._op("Gemm", taken, head, *bias, transB=1)

    def _layer(self, layer: int, state: ir.Value, frames: ir.Value) -> ir.Value:
        at = f"{self._form.prefix}layers.{layer}."
        part, feed_forward = self._layer_writer.part, self._layer_writer.feed_forward

        def own(read: ir.Value) -> ir.Value:
            return self._attend(layer, f"{at}self_attn", ATTENTION, read, read, window=-1, softcap=0.0)

        def across(read: ir.Value) -> ir.Value:
            return self._attend(layer, f"{at}encoder_attn", CONTEXT_ATTENTION, read, frames)

        state = part(state, f"{at}self_attn_layer_norm", own)
        state = part(state, f"{at}encoder_attn_layer_norm", across)
        return part(state, f"{at}final_layer_norm", lambda read: feed_forward(read, at))

    def _attend(
        self, layer: int, at: str, kind: str, read: ir.Value, seen: ir.Value, **more: Any
    ) -> ir.Value:
        """`read` attends to what is `seen`: the tokens themselves, or the encoder's frames."""
        form = self._form
        attended = self._op(
            kind,
            self._split_heads(self._project(read, f"{at}.q_proj"), "num_tokens"),
            *(self._split_heads(self._project(seen, f"{at}.{side}_proj"), "num_seen") for side in "kv"),
            *([self._bias()] if form.relative and kind == ATTENTION else []),
            domain=DOMAIN,
            layer=layer,
            num_heads=form.heads,
            num_kv_heads=form.heads,
            head_size=form.head_size,
            scale=form.score_scale,
            **more,
        )
        attended.dtype, attended.shape = F32, ir.Shape([1, form.heads, "num_tokens", form.head_size])
        rows = self._op("Transpose", attended, perm=HEADS_FIRST)
        flat = self._op("Reshape", rows, self._writer.ints(1, -1, form.attended))
        return self._layer_writer.linear(flat, f"{at}.out_proj", form.width, form.attended)

    def _bias(self) -> ir.Value:
        """One table for all layers."""
        assert self._form.relative is not None
        weight = np.asarray(self._weights[f"{self._form.prefix}{RELATIVE}"])
        return self._writer.store("bias_by_distance", bias_backwards(weight, self._form.relative))

    def _split_heads(self, rows: ir.Value, num_rows: str) -> ir.Value:
        heads, size = self._form.heads, self._form.head_size
        split = self._op("Reshape", rows, self._writer.ints(1, -1, heads, size))
        by_head = self._op("Transpose", split, perm=HEADS_FIRST)
        by_head.dtype, by_head.shape = F32, ir.Shape([1, heads, num_rows, size])
        return by_head

    def _project(self, rows: ir.Value, name: str) -> ir.Value:
        return self._layer_writer.linear(rows, name, self._form.attended, self._form.width)
