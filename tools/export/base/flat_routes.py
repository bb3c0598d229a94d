"""Folders of sentence-transformers whose modules are routes: one of queries and one of documents."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from pathlib import Path

from pipelines.repository.exports.other_vectors import QUERY_FOLDER, STATIC
from pipelines.repository.exports.sentence_modules import MLM, SPLADE, TRANSFORMER, Routes, read_routes
from tools.export.base.folder import ExportError

SPLADE_FOLDER = "1_SpladePooling"
MODULES = [{"type": f"braid.{MLM}", "path": ""}, {"type": f"braid.{SPLADE}", "path": SPLADE_FOLDER}]


def flat_folder(source: str) -> str:
    """A folder with links to the model of documents, and beside it the weights of queries; `source` itself
    where it has no routes.

    Raises `ExportError` for other routes than those of inference-free sparse models.
    """
    routes = read_routes(Path(source)) if Path(source).is_dir() else None
    if routes is None:
        return source
    model, pooling, queries = _parts(source, routes)
    flat = Path(tempfile.mkdtemp(prefix="braid-routes-"))
    atexit.register(shutil.rmtree, flat, ignore_errors=True)
    for file in model.iterdir():
        (flat / file.name).symlink_to(file.resolve())
    (flat / SPLADE_FOLDER).symlink_to(pooling.resolve())
    (flat / QUERY_FOLDER).symlink_to(queries.resolve())
    (flat / "modules.json").write_text(json.dumps(MODULES, indent=2) + "\n", encoding="utf-8")
    for settings in Path(source).glob("config_sentence_transformers.json"):
        (flat / settings.name).symlink_to(settings.resolve())
    return str(flat)


def _parts(source: str, routes: Routes) -> tuple[Path, Path, Path]:
    """The folders of the model, of its pooling, and of the weights of queries."""
    kinds = [kind for kind, _ in routes.documents], [kind for kind, _ in routes.queries]
    if kinds[1] != [STATIC] or kinds[0] not in ([MLM, SPLADE], [TRANSFORMER, SPLADE]):
        raise ExportError(f"{source} has routes of {kinds[1]} for queries and {kinds[0]} for documents")
    (_, model), (_, pooling) = routes.documents
    return Path(source) / model, Path(source) / pooling, Path(source) / routes.queries[0][1]
