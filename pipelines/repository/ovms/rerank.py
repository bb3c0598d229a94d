"""RerankCalculatorOV: the options of a reranker, and its graph lines."""

from __future__ import annotations

from pathlib import Path

from pipelines.repository.exports.pooling_graph import PoolingSettings, pooling_lines
from pipelines.repository.files.report import Report
from pipelines.repository.ovms.embeddings import encoder_settings
from pipelines.repository.ovms.model_place import find_model
from pipelines.repository.ovms.options import Given, Option

MESSAGE = "RerankCalculatorOVOptions"
CHUNKS = "max_allowed_chunks"
OPTIONS = (
    Option("models_path", str, required=True, sets="tokenizer"),
    Option(CHUNKS, int, 10000, sets=CHUNKS),
    Option("max_position_embeddings", int, sets="max_tokens"),
    Option("target_device", str, "", sets="type: encoder, from"),
    Option("plugin_config", str, ""),
)


def graph_lines(given: Given, folder: Path, override: str | None, report: Report) -> list[str]:
    """The lines of graph.yaml from the task on; [] with a problem in `report`."""
    export = find_model(given, "models_path", folder, report)
    settings = PoolingSettings(
        model=encoder_settings(given, override, report),
        tokens={CHUNKS: given[CHUNKS]} if CHUNKS in given else {},
        max_tokens=given["max_position_embeddings"],
    )
    return pooling_lines(export, "rerank", settings) if export else []
