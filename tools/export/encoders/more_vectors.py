"""Copies what gives a model vectors beside the dense ones: BGE-M3's layers, weights of queries."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from pipelines.repository.exports.other_vectors import COLBERT_LINEAR, QUERY_FOLDER, SPARSE_LINEAR, SUFFIXES
from tools.export.base.folder import ExportError
from tools.export.base.sentence_files import find

QUERY_WEIGHTS = f"{QUERY_FOLDER}/model.safetensors"
IDF = "idf.json"
"""The weights of queries by the texts of their tokens, as OpenSearch publishes them."""


def copy_more_vectors(source: str, folder: Path, tokenizer: Any) -> None:
    """Copy those files that `source` (a local folder or a hub id) has.  Raises `ExportError`."""
    names = [name + suffix for name in (SPARSE_LINEAR, COLBERT_LINEAR) for suffix in SUFFIXES]
    for name in (*names, QUERY_WEIGHTS):
        if file := find(source, name):
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(file, folder / name)
    idf = find(source, f"{QUERY_FOLDER}/{IDF}") or find(source, IDF)
    if idf is not None and not (folder / QUERY_WEIGHTS).exists():
        _write_idf(idf, tokenizer.get_vocab(), folder / QUERY_WEIGHTS)


def _write_idf(file: Path, vocabulary: dict[str, int], place: Path) -> None:
    """Write the weight of each id; 0 for ids of which the file says nothing."""
    try:
        idf = {token: float(weight) for token, weight in json.loads(file.read_text(encoding="utf-8")).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ExportError(f"{file} holds no weights of tokens: {error}") from None
    weights = np.zeros(max(vocabulary.values()) + 1, np.float32)
    for token in idf.keys() & vocabulary.keys():
        weights[vocabulary[token]] = idf[token]
    place.parent.mkdir(exist_ok=True)
    save_file({"weight": weights}, place)
