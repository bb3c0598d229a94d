"""docs/graph_reference.md (`python -m tools.lab.reference.graphs`): tasks, node types, ports, settings.

Everything on the page is read from the node classes, as the checker of graphs reads them.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from graphs import node
from graphs.flow import OneOf, show
from graphs.node import Node
from pipelines.nodes import NODE_TYPES, VOCABULARY
from pipelines.nodes.interface import AskedReply
from pipelines.values.tasks import TASKS
from tools.lab.reference.setting_rows import setting_rows, table

TEXT = """# Graph reference

<!-- generated: python -m tools.lab.reference.graphs > docs/graph_reference.md -->

Tasks, node types, inputs, settings and values of `graph.yaml`, generated from the code.
[graphs.md](graphs.md) explains the language; `braid schema` prints the same as a JSON Schema for editors.

## Tasks

The `task` of a graph fixes the type of `request` and the type that its last line must give.

{tasks}

## Node types

{overview}

{sections}

## Values

Types that flow between lines. `Stream[X]` arrives in pieces, `Deferred[X]` arrives once, later, `Series[X]`
in several parts, one after another.
`name.field` reads a field of a value, for example `request.prompts`.

{values}
"""
GROUPS = {
    ("text", "request"): "Text: lines that run in a worker",
    ("audio", "request"): "Sound: lines that run in a worker",
    ("images", "request"): "Images: lines that run in a worker",
    ("generation", "engine"): "Generation: the engine",
    ("generation", "step"): "Generation: lines of a scheduler's `body`, run once per step in the engine host",
    ("pooling", "engine"): "Pooling: the engine",
    ("pooling", "step"): "Pooling: lines of a batcher's `body`, run once per batch in the engine host",
    ("generation", "request"): "Text from an encoder: lines that run in a worker",
    ("pooling", "request"): "Pooling: lines that run in a worker",
    ("entities", "request"): "Entities of labels in a request: lines that run in a worker",
    ("entities", "engine"): "Entities of labels in a request: the engine",
    ("retrieval", "engine"): "Retrieval: the engine",
    ("retrieval", "step"): "Retrieval: lines of a search node's `body`",
    ("retrieval", "request"): "Retrieval: lines that run in a worker",
    ("speech", "request"): "Speech: lines that run in a worker",
    ("speech", "engine"): "Speech: the engine of word times",
    ("voice", "engine"): "Voices: the engine",
    ("voice", "request"): "Voices: lines that run in a worker",
    ("tensors", "engine"): "Tensors: the engine",
    (
        "tensors",
        "step",
    ): "Tensors: lines of the `body` of infer, synthesizer and find_entities, run once per request",
    ("graph_node", "request"): "Graphs in graphs",
    ("composing", "request"): "Composed graphs: lines that ask other models, in a worker",
}
"""(folder of the node's class, its place) → heading, in the order of the page."""
PLACES = {"request": "worker", "engine": "worker and engine host", "step": "engine host"}


def page() -> str:
    """The whole page."""
    tasks = [(f"`{name}`", code(task.request), code(task.reply)) for name, task in TASKS.items()]
    return TEXT.format(
        tasks=table(("task", "`request`", "last line"), tasks),
        overview=table(("type", "runs in", "takes", "gives"), [_overview(name) for name in _ordered()]),
        sections="\n\n".join(_sections()),
        values=table(("type", "meaning"), list(_values())),
    )


def code(kind: Any) -> str:
    """A type as code; one that depends on the settings in words, which stand beside it in the signature."""
    if kind is AskedReply:
        return "the reply of a model"
    if hasattr(kind, "__metadata__"):
        return show(kind.__metadata__[0]) if isinstance(kind.__metadata__[0], OneOf) else kind.__metadata__[0]
    return f"`{show(kind)}`"


def _group(name: str) -> tuple[str, str]:
    return NODE_TYPES[name].split(".")[0].split(":")[0], VOCABULARY[name].place


def _ordered() -> list[str]:
    groups = list(GROUPS)
    return sorted(NODE_TYPES, key=lambda name: groups.index(_group(name)))


def _overview(name: str) -> tuple[str, ...]:
    kind = VOCABULARY[name]
    takes = ", ".join(code(port.type) for port in _inputs(kind).values()).replace("`, `", ", ")
    return f"[`{name}`](#{name})", PLACES[kind.place], takes, code(node.output(kind, noted=True))


def _sections() -> Iterator[str]:
    for group, heading in GROUPS.items():
        yield f"### {heading}"
        yield from (_section(name, VOCABULARY[name]) for name in NODE_TYPES if _group(name) == group)


def _section(name: str, kind: type[Node]) -> str:
    """One node type: what it is for, its inputs, its output, its settings."""
    parts = [f"#### {name}", first_paragraph(kind)]
    inputs = [
        f"`{port_name}`: {code(port.type)}{' (optional)' if port.optional else ''}"
        for port_name, port in _inputs(kind).items()
    ]
    parts.append(f"Takes {', '.join(inputs)}. Gives {code(node.output(kind, noted=True))}.")
    if kind.body is not None:
        parts.append(
            f"`body`: required; its lines read `{kind.body.root}` ({code(kind.body.gives)}), "
            f"the last one gives {code(kind.body.result)}."
        )
    rows = [(f"`{cells[0]}`", *cells[1:]) for cells in setting_rows(kind.Config)]
    parts.append(table(("setting", "type", "default", "meaning"), rows) if rows else "No settings.")
    return "\n\n".join(parts)


def _inputs(kind: type[Node]) -> Mapping[str, node.Port]:
    return node.inputs(kind, noted=True)


def first_paragraph(kind: type) -> str:
    """What a class is for: the first paragraph of its docstring."""
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def _values() -> Iterator[tuple[str, str]]:
    """Each class of ours that flows somewhere, by name."""
    kinds = [task.request for task in TASKS.values()] + [task.reply for task in TASKS.values()]
    for kind in VOCABULARY.values():
        kinds += [*(port.type for port in _inputs(kind).values()), node.output(kind, noted=True)]
    classes = {part.__name__: part for kind in kinds for part in _classes(kind)}
    return ((f"`{name}`", first_paragraph(classes[name])) for name in sorted(classes))


def _classes(kind: Any) -> Iterator[type]:
    """The classes that a type is written with, without Python's own and without the wrappers."""
    arguments = typing.get_args(kind)
    if arguments:
        yield from (part for each in arguments for part in _classes(each))
    elif isinstance(kind, type) and kind is not AskedReply and kind.__module__.startswith("pipelines."):
        yield kind


if __name__ == "__main__":
    print(page(), end="")
