"""Writes an encoder of BERT's form, which embeds texts: every token attends to every other.

Networks have a gate, and queries and keys have norms, where the file has tensors for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir

from pipelines.gguf.embedder import MODES, POOLING, RANK, name_vectors
from pipelines.gguf.encoder_facts import BertFacts, read_bert_facts
from pipelines.gguf.errors import GgufError
from pipelines.gguf.experts import RoutedExperts
from pipelines.gguf.linear_layers import F32, LinearLayers, Operand
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.reader import GgufTensor
from pipelines.gguf.rotary import make_pace
from pipelines.gguf.routers import Router
from pipelines.gguf.sentence_files import write_modules
from pipelines.gguf.tensor_types import Floats
from pipelines.gguf.text_rows import INT64, TextRows
from pipelines.onnx_format.decoder_format import INPUT_IDS, LOGITS
from pipelines.onnx_format.onnx_writer import OnnxWriter

EMBEDDING, POSITIONS, TYPES = "token_embd.weight", "position_embd.weight", "token_types.weight"
SECOND_NORM = "attn_norm_2"
"""A further norm behind that of attention, of its result and the layer's input."""
HEADS_FIRST = [0, 2, 1, 3]
LARGEST_BIAS = 8.0
"""The exponent by which the slopes of all heads differ."""


def write_encoder(
    metadata: Metadata, tensors: Mapping[str, GgufTensor], folder: Path, accuracy_level: int
) -> tuple[BertFacts, int]:
    """Write model.onnx, its data and how texts are pooled to `folder`; return what the encoder is and its
    vocabulary size.  Raises `GgufError`.
    """
    facts, pooling = read_bert_facts(metadata), metadata.count(POOLING, least=0)
    if pooling not in (RANK, *MODES):
        raise GgufError(f"pools texts in way {pooling} ({facts.name}.{POOLING}), which is not served")
    if pooling != RANK:
        write_modules(facts.width, MODES[pooling], folder)
    with OnnxWriter(folder) as writer:
        linears = LinearLayers(writer, tensors, accuracy_level)
        vocabulary = _Encoder(facts, linears, writer).write(scores=pooling == RANK)
        metadata.refuse_unread()
        if unused := sorted(linears.unused()):
            raise GgufError(f"has {', '.join(unused[:5])}, which is not served for {facts.name}")
        linears.write_weights()
    return facts, vocabulary


class _Encoder:
    def __init__(self, facts: BertFacts, linears: LinearLayers, writer: OnnxWriter) -> None:
        self._facts, self._linears, self._writer, self._op = facts, linears, writer, writer.op
        if mixture := facts.mixture:
            self._router = Router(mixture, facts.width, linears, writer)
            self._experts = RoutedExperts(mixture.experts, facts.width, linears, writer)

    def write(self, scores: bool) -> int:
        """Write the graph from ids and the mask of padding to float32[texts, length, width], or to the logits
        of pairs, float32[texts, 1], where it `scores` them.
        """
        facts, linears = self._facts, self._linears
        names = (INPUT_IDS, "attention_mask", *(("token_type_ids",) if facts.types > 1 else ()))
        inputs = [ir.val(name, INT64, ["texts", "length"]) for name in names]
        self._texts = TextRows(self._writer, inputs[0])
        self._mask = self._texts.mask(-1, inputs[1])
        if facts.kind.positions == "alibi":
            self._mask = self._texts.biased(self._mask, alibi_slopes(facts.heads))
        table = linears.tensor(EMBEDDING, rows=None, width=facts.width)
        kinds = self._texts.row(inputs[2]) if facts.types > 1 else self._writer.ints(0)
        states = [
            linears.look_up(self._texts.row(inputs[0]), table),
            linears.look_up(kinds, linears.tensor(TYPES, facts.types, facts.width)),
        ]
        if facts.kind.positions == "embedded":
            embedded = linears.tensor(POSITIONS, rows=None, width=facts.width)
            states.append(linears.look_up(self._texts.positions(), embedded))
        self._cos_sin = self._angles()
        state = self._norm(self._op("Sum", *states), "token_embd_norm")
        for layer in range(facts.layers):
            state = self._layer(layer, state)
        output = self._texts.texts(state, facts.width)
        if scores:
            output = self._score(output)
        else:
            name_vectors(output, facts.width)
        self._writer.save(inputs, [output], facts.name)
        return table.rows

    def _score(self, vectors: ir.Value) -> ir.Value:
        """The logit of each pair, from the vector of its first token."""
        width, op = self._facts.width, self._op
        first = op("Gather", vectors, self._writer.ints(0), axis=1)
        dense = op("Tanh", self._linears.linear(first, "cls", width, width))
        row = self._linears.linear(dense, "cls.output", 1, width)
        logits = op("Reshape", row, self._writer.ints(-1, 1))
        logits.name, logits.dtype, logits.shape = LOGITS, F32, ir.Shape(["texts", 1])
        return logits

    def _layer(self, layer: int, state: ir.Value) -> ir.Value:
        """Each norm stands behind a sum, as in BERT."""
        at, width = f"blk.{layer}.", self._facts.width
        attended = self._linears.linear(self._attention(at, state), f"{at}attn_output", width, width)
        normed = self._norm(self._op("Add", state, attended), f"{at}attn_output_norm")
        if self._linears.has(f"{at}{SECOND_NORM}.weight"):
            normed = self._norm(self._op("Add", state, normed), f"{at}{SECOND_NORM}")
        return self._norm(self._op("Add", normed, self._fed(layer, normed)), f"{at}layer_output_norm")

    def _fed(self, layer: int, state: ir.Value) -> ir.Value:
        """What a layer's network makes of the state, or its experts."""
        at, facts = f"blk.{layer}.", self._facts
        if facts.is_mixed(layer):
            chosen = self._router.choose(at, state)
            return self._experts.write(at, state, chosen, "gelu by erf", has_gate=False)
        return self._linears.linear(self._middle(at, state), f"{at}ffn_down", facts.width, facts.inner)

    def _middle(self, at: str, state: ir.Value) -> ir.Value:
        """[1, tokens, inner] of a network, whose gate has another activation."""
        inner, up = self._facts.inner, f"{at}ffn_up"
        rows = self._linears.tensor(f"{up}.weight", rows=None, width=self._facts.width).rows
        if self._linears.has(f"{at}ffn_gate.weight"):
            operands = [Operand(f"{at}ffn_{side}", inner) for side in ("gate", "up")]
            return self._gated(*self._linears.linear_together(state, operands, self._facts.width))
        linear = self._linears.linear(state, up, rows, self._facts.width)
        if rows == inner:
            return self._op("Gelu", linear)
        if self._linears.has(f"{at}attn_q_norm.weight"):
            raise GgufError(
                f"has {up} with a gate in it and norms of queries: converters do not order them alike"
            )
        return self._gated(*self._writer.split(linear, inner, inner))

    def _gated(self, gate: ir.Value, linear: ir.Value) -> ir.Value:
        silu = self._facts.kind.gate == "silu"
        active = self._op("Mul", gate, self._op("Sigmoid", gate)) if silu else self._op("Gelu", gate)
        return self._op("Mul", active, linear)

    def _angles(self) -> tuple[ir.Value, ir.Value] | None:
        """Cosines and sines [1, tokens, size / 2] of positions; None where they are embeddings."""
        facts, op = self._facts, self._op
        if facts.kind.positions != "rotary":
            return None
        pace = make_pace(facts.rope_base, facts.width // facts.heads).reshape(1, 1, -1)
        column = op("Cast", op("Unsqueeze", self._texts.positions(), self._writer.ints(2)), to=F32)
        angles = op("Mul", column, self._writer.store("rope.pace", pace))
        return op("Cos", angles), op("Sin", angles)

    def _attention(self, at: str, state: ir.Value) -> ir.Value:
        """[1, tokens, width] of what the tokens attend to."""
        facts, op = self._facts, self._op
        size = facts.width // facts.heads
        split = self._writer.ints(1, -1, facts.heads, size)
        parts = [
            op("Transpose", op("Reshape", rows, split), perm=HEADS_FIRST)
            for rows in self._normed_heads(at, state)
        ]
        if self._cos_sin:
            for number in range(2):
                parts[number] = op(
                    "RotaryEmbedding", parts[number], *self._cos_sin, interleaved=0, num_heads=facts.heads
                )
        operands = [(part, facts.heads) for part in parts]
        attended = self._texts.attended(operands, size, self._mask, size**-0.5, 0.0)
        return op(
            "Reshape", op("Transpose", attended, perm=HEADS_FIRST), self._writer.ints(1, -1, facts.width)
        )

    def _projections(self, at: str, state: ir.Value) -> Iterable[ir.Value]:
        """Queries, keys and values as rows; their weights are three tensors or one."""
        width = self._facts.width
        if self._linears.has(f"{at}attn_qkv.weight"):
            joined = self._linears.linear(state, f"{at}attn_qkv", 3 * width, width)
            return self._writer.split(joined, width, width, width)
        operands = [Operand(f"{at}attn_{letter}", width) for letter in "qkv"]
        return self._linears.linear_together(state, operands, width)

    def _normed_heads(self, at: str, state: ir.Value) -> Iterable[ir.Value]:
        """Queries, keys and values; the first two are normed where the file has the norms."""
        for letter, rows in zip("qkv", self._projections(at, state), strict=True):
            name = f"{at}attn_{letter}_norm"
            yield self._norm(rows, name) if self._linears.has(f"{name}.weight") else rows

    def _norm(self, state: ir.Value, name: str) -> ir.Value:
        scale, shift = (
            self._writer.store(f"{name}.{part}", self._linears.vector(f"{name}.{part}", self._facts.width))
            for part in ("weight", "bias")
        )
        return self._op("LayerNormalization", state, scale, shift, axis=-1, epsilon=self._facts.epsilon)


def alibi_slopes(heads: int) -> Floats:
    """float32[heads] of what a score loses for each token in between, as in ALiBi: powers of one number, and
    those of its root in between where `heads` is no power of two.
    """
    whole = 1 << (heads.bit_length() - 1)
    powers = [LARGEST_BIAS * number / whole for number in range(1, whole + 1)]
    powers += [LARGEST_BIAS * number / (2 * whole) for number in range(1, 2 * (heads - whole), 2)]
    slopes: Floats = np.exp2(-np.array(powers)).astype(np.float32)
    return slopes
