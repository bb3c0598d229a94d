"""The lines for vectors beside the dense ones: BGE-M3's, and those of queries for which no model runs."""

from __future__ import annotations

import os

from pipelines.repository.exports.export_files import Export, read_object
from pipelines.repository.exports.sentence_modules import read_routes

Lines = list[tuple[str, str]]
SPARSE_LINEAR, COLBERT_LINEAR = "sparse_linear", "colbert_linear"
SUFFIXES = (".safetensors", ".pt")
"""BGE-M3's linear layers, beside its model, and the formats in which they are read."""
STATIC = "SparseStaticEmbedding"
QUERY_FOLDER = f"query_0_{STATIC}"
"""The usual folder of the weights of queries."""
SPECIAL = frozenset({"<s>", "</s>", "<pad>", "<unk>", "[CLS]", "[SEP]", "[PAD]", "[UNK]"})
"""Tokens that are no words."""


def beside_dense(export: Export) -> Lines:
    """The lines of BGE-M3: a weight for each word, and a vector for each token."""
    sparse, colbert = _layer(export, SPARSE_LINEAR), _layer(export, COLBERT_LINEAR)
    lines = []
    if sparse:
        lines.append(("sparse", f"type: sparse, from: hidden, weights: {sparse}{skipped(export)}"))
    if colbert:
        lines.append(("colbert", f"type: colbert, from: hidden, weights: {colbert}, skip_first: true"))
    return lines


def query_weights(export: Export) -> str | None:
    """The file of the weights of queries, as a graph names it; None where queries are read as documents."""
    routes = read_routes(export.place.parent)
    named = [path for kind, path in (routes.queries if routes else []) if kind == STATIC]
    places = [f"../{named[0]}"] if named else [QUERY_FOLDER]
    found = [f"{place}/model.safetensors" for place in places]
    file = next((each for each in found if (export.place / each).is_file()), None)
    return None if file is None else os.path.normpath(export.prefix + file)


def sparse_tokens(export: Export, weights: str) -> str:
    """The settings of the line for vectors of queries, which are tokenized without special tokens."""
    return f"type: sparse_tokens, from: batch, weights: {weights}{skipped(export)}"


def skipped(export: Export) -> str:
    """The setting for ids that have no weight."""
    added = read_object(export.place / "tokenizer.json").get("added_tokens")
    tokens = added if isinstance(added, list) else []
    ids = sorted(token["id"] for token in tokens if token.get("content") in SPECIAL)
    return f", skip_ids: {ids}" if ids else ""


def _layer(export: Export, name: str) -> str | None:
    return next((found for suffix in SUFFIXES if (found := export.names(name + suffix))), None)
