"""Writes a decoder that embeds texts: the vectors of the last layer, in the form of an exported encoder.

Where attention is causal no token attends to padding, which stands at the end of a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx_ir as ir

from pipelines.gguf.decoder import HEAD, INT64, Decoder
from pipelines.gguf.decoder_facts import DecoderFacts, read_facts
from pipelines.gguf.errors import GgufError
from pipelines.gguf.linear_layers import F32, LinearLayers
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.reader import GgufTensor
from pipelines.gguf.reranker import write_reranker
from pipelines.gguf.sentence_files import read_dense, write_modules
from pipelines.gguf.text_rows import TextRows
from pipelines.onnx_format.decoder_format import INPUT_IDS
from pipelines.onnx_format.onnx_writer import OnnxWriter

POOLING = "pooling_type"
RANK = 4
MODES = {1: "mean", 2: "cls", 3: "lasttoken"}
"""`pooling_type` → its name in the files of sentence-transformers."""
VECTORS = "last_hidden_state"


def embeds(metadata: Metadata) -> bool:
    """Whether the file embeds texts, which it says by the way it pools them."""
    return metadata.count(POOLING, 0, 0) > 0


def ranks(metadata: Metadata) -> bool:
    """Whether the file scores pairs of a query and a document."""
    return metadata.count(POOLING, 0, 0) == RANK


def write_embedder(
    metadata: Metadata, tensors: Mapping[str, GgufTensor], folder: Path, accuracy_level: int
) -> tuple[DecoderFacts, int]:
    """Write model.onnx, its data and how texts are pooled to `folder`; return what the decoder is and its
    vocabulary size.  Raises `GgufError`.
    """
    facts, pooling = read_facts(metadata), metadata.count(POOLING)
    if pooling not in (RANK, *MODES):
        raise GgufError(f"pools texts in way {pooling} ({facts.name}.{POOLING}), which is not served")
    if facts.recurrence:
        raise GgufError(f"embeds texts by {facts.name}, whose recurrent layers are served in decoders alone")
    with OnnxWriter(folder) as writer:
        linears = LinearLayers(writer, tensors, accuracy_level)
        if ranks(metadata):
            write_reranker(metadata, linears, facts.width, folder)
        else:
            dense = read_dense(metadata, linears, facts.width)
            write_modules(facts.width, MODES[pooling], folder, dense)
        vocabulary = _Embedder(facts, metadata, linears, writer).write()
        linears.write_weights()
    return facts, vocabulary


def name_vectors(vectors: ir.Value, width: int) -> None:
    """Make `vectors` the output of an exported encoder."""
    vectors.name, vectors.dtype = VECTORS, F32
    vectors.shape = ir.Shape(["texts", "length", width])


class _Embedder(Decoder):
    """All tokens of a batch lie in one row, as in a decoder; attention alone parts them into texts."""

    def write(self) -> int:
        """Write the graph from int64[texts, length] to float32[texts, length, width]."""
        facts = self._facts
        names = (INPUT_IDS,) if facts.kind.is_causal else (INPUT_IDS, "attention_mask")
        inputs = [ir.val(name, INT64, ["texts", "length"]) for name in names]
        self._texts, (ids, *masks) = TextRows(self._writer, inputs[0]), inputs
        self._masks = {window: self._texts.mask(window, *masks) for window in {facts.window, -1}}
        states = self._states(self._texts.row(ids), self._texts.positions())
        vectors = self._texts.texts(
            self._norms.write(states, f"{facts.kind.output_norm}.weight", facts.width), facts.width
        )
        if self._linears.has(HEAD):
            self._linears.tensor(HEAD, self._table.rows, facts.width)
        self._refuse_unused()
        name_vectors(vectors, facts.width)
        self._writer.save(inputs, [vectors], facts.name)
        return self._table.rows

    def _attended(self, layer: int, query: ir.Value, key: ir.Value, value: ir.Value) -> ir.Value:
        facts, head = self._facts, self._facts.head_of(layer)
        operands = [(query, facts.heads), (key, head.kv_heads), (value, head.kv_heads)]
        mask = self._masks[facts.window_of(layer)]
        return self._texts.attended(operands, head.size, mask, facts.scale, facts.attention_cap)
