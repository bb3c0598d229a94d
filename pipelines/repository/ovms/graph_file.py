"""graph.pbtxt → the text of a Braid graph, each line with its place in graph.pbtxt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from graphs.errors import hint
from pipelines.repository.exports.export_files import GRAPH_PBTXT
from pipelines.repository.files.report import Report
from pipelines.repository.files.text_format import TextFormatError, TextMessage, parse
from pipelines.repository.ovms import tensor_graph
from pipelines.repository.ovms.calculators import (
    GRAPH_FIELDS,
    INFERENCE,
    NODE_FIELDS,
    REFUSED,
    SESSION,
    WRITERS,
)
from pipelines.repository.ovms.options import read_options

KNOWN = (*WRITERS, SESSION, INFERENCE)


def graph_text(
    file: Path,
    source: str = GRAPH_PBTXT,
    override: str | None = None,
    servables: Mapping[str, tensor_graph.ServedFile] | None = None,
    folder: Path | None = None,
) -> str:
    """The text of the graph that a graph.pbtxt declares, its notes as comments.

    `source` is the file's name in messages, `override` the device that all models run on, `servables` the
    models that it may name; `folder` is that of the made graph, where it is not the file's own.  Raises
    GraphError with every problem; OSError and UnicodeDecodeError.
    """
    report = Report(source)
    try:
        graph = parse(file.read_text(encoding="utf-8"))
    except TextFormatError as error:
        report.problem(error.line, error.text)
        return report.written([])
    _check_fields(graph, GRAPH_FIELDS, "a graph", report)
    nodes = graph.messages("node")
    for node in nodes:
        _check_fields(node, NODE_FIELDS, "a node", report)
        _check_calculator(node, report)
    if report.problems:
        return report.written([])
    return report.written(_lines(graph, nodes, folder or file.parent, override, servables or {}, report))


def named_servables(file: Path) -> list[str]:
    """The servables that a graph.pbtxt names; [] where it cannot be read."""
    try:
        nodes = parse(file.read_text(encoding="utf-8")).messages("node")
    except (TextFormatError, OSError, UnicodeDecodeError):
        return []
    return list(dict.fromkeys(name for node in nodes for name in tensor_graph.servable_names(node)))


def _lines(
    graph: TextMessage,
    nodes: list[TextMessage],
    folder: Path,
    override: str | None,
    servables: Mapping[str, tensor_graph.ServedFile],
    report: Report,
) -> list[str]:
    whole = [node for node in nodes if node.text("calculator") in WRITERS]
    if not whole:
        return tensor_graph.graph_lines(graph, nodes, servables, report)
    others = [node for node in nodes if node is not whole[0]]
    for other in others:
        report.problem(
            other.line, f"{whole[0].text('calculator')} is a graph of its own: no other node goes with it"
        )
    writer = WRITERS[whole[0].text("calculator")]
    options = read_options(whole[0], writer.MESSAGE, writer.OPTIONS, report)
    return options.placed(writer.graph_lines(options, folder, override, report), GRAPH_PBTXT)


def _check_fields(message: TextMessage, known: tuple[str, ...], what: str, report: Report) -> None:
    for each in message.fields:
        if each.name not in known:
            report.problem(each.line, f"{what} has no field `{each.name}`{hint(each.name, known)}")
        elif each.name == "node" and not isinstance(each.value, TextMessage):
            report.problem(each.line, "`node` must be a message in braces")


def _check_calculator(node: TextMessage, report: Report) -> None:
    name = node.text("calculator")
    line = next((each.line for each in node.all("calculator")), node.line)
    if name in REFUSED:
        report.problem(line, f"{name} {REFUSED[name]}")
    elif not name:
        report.problem(line, "a node needs a `calculator`, a text in quotes")
    elif name not in KNOWN:
        report.problem(line, f"{name} is not a calculator that Braid has{hint(name, KNOWN)}")
