"""Writes an encoder of BERT's form, which embeds texts: every token attends to every other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import onnx_ir as ir

from pipelines.gguf.embedder import MODES, POOLING, name_vectors, write_modules
from pipelines.gguf.errors import GgufError
from pipelines.gguf.linear_layers import LinearLayers, Operand
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.reader import GgufTensor
from pipelines.gguf.text_rows import INT64, TextRows
from pipelines.onnx_format.decoder_format import INPUT_IDS
from pipelines.onnx_format.onnx_writer import OnnxWriter

ENCODERS = ("bert",)
"""Architectures of this form."""
EMBEDDING, POSITIONS, TYPES = "token_embd.weight", "position_embd.weight", "token_types.weight"
HEADS_FIRST = [0, 2, 1, 3]


class BertFacts(NamedTuple):
    """The sizes of an encoder; `types` is how many kinds of parts a text may have."""

    name: str
    layers: int
    width: int
    heads: int
    inner: int
    context: int
    epsilon: float
    types: int


def read_bert_facts(metadata: Metadata) -> BertFacts:
    """Raises `GgufError`."""
    width, heads = metadata.count("embedding_length"), metadata.count("attention.head_count")
    if width % heads:
        raise GgufError(f"has {heads} heads for a width of {width}")
    if metadata.flag(f"{metadata.architecture}.attention.causal"):
        raise GgufError(f"is of architecture {metadata.architecture} with causal attention")
    return BertFacts(
        metadata.architecture,
        layers=metadata.count("block_count"),
        width=width,
        heads=heads,
        inner=metadata.count("feed_forward_length"),
        context=metadata.count("context_length"),
        epsilon=metadata.own("attention.layer_norm_epsilon", most=1),
        types=int(metadata.number("tokenizer.ggml.token_type_count", 1)),
    )


def write_encoder(
    metadata: Metadata, tensors: Mapping[str, GgufTensor], folder: Path, accuracy_level: int
) -> tuple[BertFacts, int]:
    """Write model.onnx, its data and how texts are pooled to `folder`; return what the encoder is and its
    vocabulary size.  Raises `GgufError`.
    """
    facts, pooling = read_bert_facts(metadata), metadata.count(POOLING, least=0)
    if pooling not in MODES:
        raise GgufError(f"pools texts in way {pooling} ({facts.name}.{POOLING}), which is not served")
    write_modules(facts.width, MODES[pooling], folder)
    with OnnxWriter(folder) as writer:
        linears = LinearLayers(writer, tensors, accuracy_level)
        vocabulary = _Encoder(facts, linears, writer).write()
        metadata.refuse_unread()
        if unused := sorted(linears.unused()):
            raise GgufError(f"has {', '.join(unused[:5])}, which is not served for {facts.name}")
        linears.write_weights()
    return facts, vocabulary


class _Encoder:
    def __init__(self, facts: BertFacts, linears: LinearLayers, writer: OnnxWriter) -> None:
        self._facts, self._linears, self._writer, self._op = facts, linears, writer, writer.op

    def write(self) -> int:
        """Write the graph from ids and the mask of padding to float32[texts, length, width]."""
        facts, linears = self._facts, self._linears
        names = (INPUT_IDS, "attention_mask", *(("token_type_ids",) if facts.types > 1 else ()))
        inputs = [ir.val(name, INT64, ["texts", "length"]) for name in names]
        self._texts = TextRows(self._writer, inputs[0])
        self._mask = self._texts.mask(-1, inputs[1])
        table = linears.tensor(EMBEDDING, rows=None, width=facts.width)
        kinds = self._texts.row(inputs[2]) if facts.types > 1 else self._writer.ints(0)
        states = [
            linears.look_up(self._texts.row(inputs[0]), table),
            linears.look_up(self._texts.positions(), linears.tensor(POSITIONS, rows=None, width=facts.width)),
            linears.look_up(kinds, linears.tensor(TYPES, facts.types, facts.width)),
        ]
        state = self._norm(self._op("Sum", *states), "token_embd_norm")
        for layer in range(facts.layers):
            state = self._layer(f"blk.{layer}.", state)
        vectors = self._texts.texts(state, facts.width)
        name_vectors(vectors, facts.width)
        self._writer.save(inputs, [vectors], facts.name)
        return table.rows

    def _layer(self, at: str, state: ir.Value) -> ir.Value:
        """Each norm stands behind a sum, as in BERT."""
        width, inner = self._facts.width, self._facts.inner
        attended = self._linears.linear(self._attention(at, state), f"{at}attn_output", width, width)
        state = self._norm(self._op("Add", state, attended), f"{at}attn_output_norm")
        middle = self._op("Gelu", self._linears.linear(state, f"{at}ffn_up", inner, width))
        fed = self._linears.linear(middle, f"{at}ffn_down", width, inner)
        return self._norm(self._op("Add", state, fed), f"{at}layer_output_norm")

    def _attention(self, at: str, state: ir.Value) -> ir.Value:
        """[1, tokens, width] of what the tokens attend to."""
        facts, op = self._facts, self._op
        size = facts.width // facts.heads
        operands = [Operand(f"{at}attn_{letter}", facts.width) for letter in "qkv"]
        split = self._writer.ints(1, -1, facts.heads, size)
        parts = [
            (op("Transpose", op("Reshape", rows, split), perm=HEADS_FIRST), facts.heads)
            for rows in self._linears.linear_together(state, operands, facts.width)
        ]
        attended = self._texts.attended(parts, size, self._mask, size**-0.5, 0.0)
        return op(
            "Reshape", op("Transpose", attended, perm=HEADS_FIRST), self._writer.ints(1, -1, facts.width)
        )

    def _norm(self, state: ir.Value, name: str) -> ir.Value:
        scale, shift = (
            self._writer.store(f"{name}.{part}", self._linears.vector(f"{name}.{part}", self._facts.width))
            for part in ("weight", "bias")
        )
        return self._op("LayerNormalization", state, scale, shift, axis=-1, epsilon=self._facts.epsilon)
