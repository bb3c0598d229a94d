"""Writes a decoder that embeds texts: the vectors of the last layer, in the form of an exported encoder.

Attention is causal and padding stands at the end of a text, so no token attends to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir

from pipelines.gguf.architectures import DecoderFacts, read_facts
from pipelines.gguf.decoder import HEAD, INT64, OUTPUT_NORM, Decoder
from pipelines.gguf.errors import GgufError
from pipelines.gguf.linear_layers import F32, LinearLayers
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.reader import GgufTensor
from pipelines.gguf.reranker import write_reranker
from pipelines.onnx_format.decoder_format import INPUT_IDS
from pipelines.onnx_format.onnx_writer import OnnxWriter

POOLING = "pooling_type"
RANK = 4
MODES = {1: "mean", 2: "cls", 3: "lasttoken"}
"""`pooling_type` → its name in the files of sentence-transformers."""
VECTORS = "last_hidden_state"
TEXTS_FIRST = [1, 0, 2, 3]
MODULES = {"0": ("", "Transformer"), "1": ("1_Pooling", "Pooling"), "2": ("2_Normalize", "Normalize")}
"""Number of a module → its folder and type, as sentence-transformers names them."""


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
    with OnnxWriter(folder) as writer:
        linears = LinearLayers(writer, tensors, accuracy_level)
        if ranks(metadata):
            write_reranker(metadata, linears, facts.width, folder)
        else:
            _write_modules(facts.width, MODES[pooling], folder)
        vocabulary = _Embedder(facts, metadata, linears, writer).write()
        linears.write_weights()
    return facts, vocabulary


def _write_modules(width: int, mode: str, folder: Path) -> None:
    """The files of sentence-transformers that say how texts are pooled."""
    modules = [
        {"idx": int(number), "name": number, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in MODULES.items()
    ]
    (folder / "modules.json").write_text(json.dumps(modules, indent=2) + "\n", encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    settings = {"word_embedding_dimension": width, "pooling_mode": mode}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings) + "\n", encoding="utf-8")


class _Embedder(Decoder):
    """All tokens of a batch lie in one row, as in a decoder; attention alone parts them into texts."""

    def write(self) -> int:
        """Write the graph from int64[texts, length] to float32[texts, length, width]."""
        facts, op, ints = self._facts, self._op, self._writer.ints
        ids = ir.val(INPUT_IDS, INT64, ["texts", "length"])
        self._shape = op("Shape", ids)
        length = op("Gather", self._shape, ints(1))
        numbers = op("Range", self._scalar(0), op("Squeeze", length), self._scalar(1))
        positions = op("Reshape", op("Expand", numbers, self._shape), ints(1, -1))
        self._masks = {window: self._mask(numbers, window) for window in {facts.window, -1}}
        states = self._states(op("Reshape", ids, ints(1, -1)), positions)
        normed = self._norm(states, OUTPUT_NORM, facts.width)
        vectors = op("Reshape", normed, op("Concat", self._shape, ints(facts.width), axis=0))
        if self._linears.has(HEAD):
            self._linears.tensor(HEAD, self._table.rows, facts.width)
        self._refuse_unused()
        vectors.name, vectors.dtype = VECTORS, F32
        vectors.shape = ir.Shape(["texts", "length", facts.width])
        self._writer.save([ids], [vectors], facts.name)
        return self._table.rows

    def _attended(self, layer: int, query: ir.Value, key: ir.Value, value: ir.Value) -> ir.Value:
        facts, op = self._facts, self._op
        heads = (facts.heads, facts.kv_heads, facts.kv_heads)
        texts = [self._by_text(*each) for each in zip((query, key, value), heads, strict=True)]
        mask = self._masks[facts.window_of(layer)]
        attended = op("Attention", *texts, mask, scale=float(facts.scale), softcap=float(facts.attention_cap))
        rows = op("Transpose", attended, perm=TEXTS_FIRST)
        return op("Reshape", rows, self._writer.ints(1, facts.heads, -1, facts.head_size))

    def _by_text(self, rows: ir.Value, heads: int) -> ir.Value:
        """[1, heads, tokens, head_size] → [texts, heads, length, head_size]."""
        op, ints = self._op, self._writer.ints
        shape = op("Concat", ints(heads), self._shape, ints(self._facts.head_size), axis=0)
        return op("Transpose", op("Reshape", rows, shape), perm=TEXTS_FIRST)

    def _mask(self, numbers: ir.Value, window: int) -> ir.Value:
        """bool[length, length]: whether the token of a row attends to that of a column."""
        op, ints = self._op, self._writer.ints
        distance = op("Sub", op("Unsqueeze", numbers, ints(1)), op("Unsqueeze", numbers, ints(0)))
        is_before = op("GreaterOrEqual", distance, self._scalar(0))
        if window < 0:
            return is_before
        return op("And", is_before, op("Less", distance, self._scalar(window)))

    def _scalar(self, number: int) -> ir.Value:
        return self._writer.store(f"scalar.{number}", np.array(number, np.int64))
