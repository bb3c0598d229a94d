"""Copies what gives a model vectors beside the dense ones: BGE-M3's layers, weights of queries."""

from __future__ import annotations

import shutil
from pathlib import Path

from pipelines.repository.exports.other_vectors import COLBERT_LINEAR, QUERY_FOLDER, SPARSE_LINEAR, SUFFIXES
from tools.export.base.sentence_files import find

QUERY_WEIGHTS = f"{QUERY_FOLDER}/model.safetensors"


def copy_more_vectors(source: str, folder: Path) -> None:
    """Copy those files that `source` (a local folder or a hub id) has."""
    names = [name + suffix for name in (SPARSE_LINEAR, COLBERT_LINEAR) for suffix in SUFFIXES]
    for name in (*names, QUERY_WEIGHTS):
        if file := find(source, name):
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(file, folder / name)
