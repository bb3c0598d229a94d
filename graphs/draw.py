"""Draws a checked graph: as plain text for terminals, as mermaid for web pages."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphs.flow import show
from graphs.graph import Binding, Graph
from graphs.node import FolderPath, named_paths
from graphs.placement import PROCESSES, Process, process
from graphs.settings import given_settings

WIDTH = 100
"""Columns of the text drawing."""


@dataclass(frozen=True)
class _Columns:
    """Widths of the name, type and source columns, shared by a list and its bodies."""

    name: int
    kind: int
    reads: int


def text(graph: Graph) -> str:
    """The graph from top to bottom: a line per binding, its settings below it, bodies in boxes.

    Every line has at most WIDTH columns; a row that is longer is cut, a long setting is broken.  The graph
    of another model is folded: a row with the types of its lines.
    """
    columns = _columns(graph)
    head = f"{graph.task}: {show(graph.request)} → {show(graph.reply)}"
    lines = [head, *textwrap.wrap(graph.description, WIDTH), ""]
    lines.append(_root_row("request", graph.request, columns, WIDTH))
    for binding in graph.bindings:
        rail = " " if binding is graph.result else "│"
        lines.extend(_rows(binding, columns, WIDTH, rail, process(binding)))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _columns(graph: Graph) -> _Columns:
    """Names in bodies are indented by the width of the box's edge."""
    rows = [(binding, 0) for binding in graph.bindings]
    rows += [(inner, 4) for binding in graph.bindings for inner in binding.body]
    return _Columns(
        name=min(24, max(len(binding.name) + indent for binding, indent in rows)),
        kind=min(20, max(len(binding.type_name) for binding, _ in rows)),
        reads=min(32, max(len(_reads(binding)) for binding, _ in rows)),
    )


def _rows(
    binding: Binding, columns: _Columns, width: int, rail: str, where: Process | None = None
) -> Iterator[str]:
    mark = "◆" if binding.body else "●"
    row = f"{mark} {binding.name:{columns.name}}  {binding.type_name:{columns.kind}}  {_reads(binding)}"
    yield _ending(row, columns, show(binding.gives), PROCESSES[where] if where else "", width)
    indent = rail + " " * (columns.name + 3)
    yield from textwrap.wrap(
        " · ".join(_settings(binding)),
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    for name, graph in binding.graphs.items():
        yield from textwrap.wrap(
            _folded(name, graph),
            width,
            initial_indent=indent,
            subsequent_indent=f"{indent}  ",
            break_on_hyphens=False,
        )
    if binding.body:
        yield from (rail + row for row in _box(binding, columns, width - 1))


def _folded(name: str, graph: Graph) -> str:
    """Another model's graph in a row: its name, its task, and the types of its lines."""
    return f"▸ {name}, {graph.task}: {' → '.join(line.type_name for line in graph.bindings)}"


def _root_row(name: str, kind: Any, columns: _Columns, width: int) -> str:
    return _ending(f"○ {name}", columns, show(kind), "", width)


def _ending(row: str, columns: _Columns, gives: str, where: str, width: int) -> str:
    """A row with its type in the column after the sources and its process at the right edge, cut to fit."""
    start = columns.name + columns.kind + columns.reads + 8
    row = f"{row:{start}}{gives}" if len(row) < start else f"{row}  {gives}"
    room = width - len(where) - (2 if where else 0)
    cut = row if len(row) <= room else f"{row[: room - 1]}…"
    return f"{cut:{room}}  {where}" if where else cut


def _box(binding: Binding, columns: _Columns, width: int) -> Iterator[str]:
    """The body between the rail and the right edge."""
    inner = width - 5
    narrower = _Columns(columns.name - 4, columns.kind, columns.reads)
    contract = binding.type.body
    title = f" ╭─ once per {contract.root if contract else 'step'} "
    yield title + "─" * (width - len(title) - 1) + "╮"
    rows = [_root_row(contract.root, contract.gives, narrower, inner)] if contract else []
    for line in binding.body:
        rows.extend(_rows(line, narrower, inner, " " if line is binding.body[-1] else "│"))
    yield from (f" │ {row:{inner}} │" for row in rows)
    yield " ╰" + "─" * (width - 3) + "╯"


def _reads(binding: Binding) -> str:
    """`← prompt`, with the input's name where a line has several."""
    several = len(binding.sources) > 1
    parts = [f"{port}: {source}" if several else str(source) for port, source in binding.sources.items()]
    return f"← {', '.join(parts)}" if parts else ""


def _settings(binding: Binding) -> list[str]:
    return [f"{path}: {_value(value)}" for path, value in given_settings(binding.config).items()]


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def mermaid(graph: Graph) -> str:
    """The graph as a mermaid flowchart; bodies are subgraphs, edges carry inputs that need a name."""
    lines = ["flowchart TD", f"    request([{_quoted('request', show(graph.request))}])"]
    for binding in graph.bindings:
        lines.extend("    " + line for line in _mermaid_node(binding))
    for binding in graph.bindings:
        lines.extend(f"    {edge}" for edge in _edges(binding, ""))
    reply = _quoted("reply", show(graph.reply))
    lines += [f"    reply([{reply}])", f"    {_id(graph.result, '')} --> reply"]
    return "\n".join(lines) + "\n"


def _mermaid_node(binding: Binding) -> Iterator[str]:
    label = _quoted(binding.name, binding.type_name, *(f"→ {name}" for name in binding.graphs))
    if not binding.body:
        yield f"{_id(binding, '')}[{label}]"
        return
    root = binding.type.body.root if binding.type.body else "step"
    yield f"subgraph {_id(binding, '')}[{label}]"
    yield f"    {binding.name}__{root}([{_quoted(root)}])"
    for inner in binding.body:
        folders = [f"{path}/" for path in named_paths(inner.config, FolderPath)]
        label = _quoted(inner.name, inner.type_name, *folders)
        yield f"    {_id(inner, binding.name)}[{label}]"
    for inner in binding.body:
        yield from (f"    {edge}" for edge in _edges(inner, binding.name))
    yield "end"


def _edges(binding: Binding, within: str) -> Iterator[str]:
    for port, source in binding.sources.items():
        words = [*([port] if len(binding.sources) > 1 else []), *([str(source)] if source.fields else [])]
        label = f"|{_quoted(': '.join(words))}|" if words else ""
        root = f"{within}__{source.root}" if within else _safe(source.root)
        yield f"{root} -->{label} {_id(binding, within)}"


def _id(binding: Binding, within: str) -> str:
    return f"{within}__{binding.name}" if within else _safe(binding.name)


def _safe(name: str) -> str:
    """An id that is no keyword of mermaid (`end`, `graph` …) and differs from `request` and `reply`."""
    return name if name == "request" else f"{name}_"


def _quoted(*parts: str) -> str:
    escaped = [part.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;") for part in parts]
    return '"' + "<br/>".join(escaped) + '"'
