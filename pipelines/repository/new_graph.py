"""Writes the graph of a model without graph.yaml, for `braid new-graph` and for serving it."""

from __future__ import annotations

from pathlib import Path

from graphs.errors import GraphError
from graphs.read import without_places
from pipelines.repository.exports.export_files import GRAPH_PBTXT
from pipelines.repository.exports.export_graph import HEADER, export_graph, recognise_export
from pipelines.repository.ovms import graph_file


def recognise(folder: Path) -> str | None:
    """`openvino` or `onnx` when the folder holds a model that `new_graph` writes a graph for, else None.

    One with a graph.pbtxt is always one of OpenVINO Model Server's, also where its graph is refused.
    """
    if (folder / GRAPH_PBTXT).is_file():
        return "openvino"
    return recognise_export(folder)


def new_graph(folder: Path) -> str:
    """The text of a graph.yaml for the model in `folder`: that of its graph.pbtxt, or of its other files.

    Raises ValueError when there is no export that Braid recognises, or one that it cannot run.
    """
    if not (folder / GRAPH_PBTXT).is_file():
        return export_graph(folder)
    try:
        return HEADER + without_places(graph_file.graph_text(folder / GRAPH_PBTXT))
    except GraphError as error:
        raise ValueError(str(error)) from error
