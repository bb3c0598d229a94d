"""Exports a trained folder as a model of the repository, in ONNX for CPUs and NVIDIA GPUs."""

from __future__ import annotations

from pathlib import Path

from pipelines.repository.exports.export_graph import HEADER
from pipelines.repository.new_graph import new_graph

TASKS = {"rerank": "rerank", "sentiment": "classify", "embed": "embed"}
WEIGHTS = {"rerank": "int8", "sentiment": "int8", "embed": "int8"}
ABOUT = {
    "rerank": "A very small reranker, for trying Braid without downloading anything",
    "sentiment": "A very small classifier of reviews, for trying Braid without downloading anything",
    "embed": "A very small encoder of texts, for trying Braid without downloading anything",
}
SERVED_FILES = {
    "model.onnx",
    "model.onnx.data",
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
}


def export(demo: str, trained: Path, repository: Path) -> None:
    """Writes braid-<demo> of the repository: replaces model/ and graph.yaml."""
    from tools.export.encoder import EncoderOptions, export_encoder  # slow to import

    folder = repository / f"braid-{demo}"
    export_encoder(str(trained), folder / "model", EncoderOptions(TASKS[demo], "onnx", WEIGHTS[demo]))
    for path in (folder / "model").iterdir():
        if path.is_file() and path.name not in SERVED_FILES:
            path.unlink()
    (folder / "graph.yaml").unlink(missing_ok=True)
    (folder / "graph.yaml").write_text(_graph(demo, new_graph(folder)))


def _graph(demo: str, made: str) -> str:
    """The graph of `braid new-graph` with a description of the model."""
    header = f"# The embedded {demo} demo: trained by tools/train_demo/pooling, exported by braid export.\n"
    body = made.replace(HEADER, header)
    return body.replace("nodes:\n", f"description: {ABOUT[demo]}\nnodes:\n", 1)
