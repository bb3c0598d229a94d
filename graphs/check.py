"""Checks the text of a graph file: the result is a Graph, or a list of all its problems.

The vocabulary, `node_types` and `tasks`, is passed in.  Of a node class only `place`, `body`, `Config` and
the signature of `run` are read; nothing runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from graphs import node
from graphs.errors import GraphError, Problem, hint, nearest
from graphs.flow import accepts, show
from graphs.graph import (
    ROOTS,
    Binding,
    Graph,
    GraphLookup,
    PortsBySettings,
    SettingError,
    Source,
    Task,
    TaskContract,
)
from graphs.header import misspelt, read_header
from graphs.node import BodyContract, Node, Place
from graphs.read import GraphDocument, KeyPath, read
from graphs.settings import read_settings
from graphs.wiring import Ports, Scope, Wire

__all__ = [
    "Binding",
    "Graph",
    "GraphError",
    "GraphLookup",
    "Problem",
    "Source",
    "Task",
    "TaskContract",
    "check",
]

LINE_KEYS = ("type", "from", "body")
NOTHING = type(None)
"""The type of a value that no line gives."""
MAX_LINES = 500
"""Lines of one list; bounds the search for nearest names."""


def check(
    text: str,
    node_types: Mapping[str, type[Node]],
    tasks: Mapping[str, Task],
    folder: Path | None = None,
    graphs: GraphLookup | None = None,
    source: str = "graph.yaml",
) -> Graph:
    """The graph that `text` declares.  Raises GraphError with every problem.

    Paths must name files in `folder`, unless it is None.  `graphs` finds the graphs that a line names;
    `source` is the file's name in messages.
    """
    document, graph = read(text, source), None
    if document.data is not None:
        graph = _Checker(document, node_types, tasks, folder, graphs).graph()
    if document.problems or graph is None:
        raise GraphError(document.problems)
    return graph


class _Unresolved(Exception):
    """A node's ports depend on a graph that is missing or has problems, which are recorded already."""


class _Checker:
    """Checks one file from top to bottom.  Each method records problems and continues with the rest."""

    def __init__(
        self,
        document: GraphDocument,
        node_types: Mapping[str, type[Node]],
        tasks: Mapping[str, Task],
        folder: Path | None,
        graphs: GraphLookup | None,
    ) -> None:
        self.document = document
        self.data: dict[str, Any] = document.data or {}
        self.node_types = node_types
        self.tasks = tasks
        self.folder = folder
        self.graphs = graphs

    def graph(self) -> Graph | None:
        task = read_header(self.document, self.tasks)
        raw = self.data.get("nodes")
        if not isinstance(raw, dict) or not raw:
            if not misspelt("nodes", self.data):
                self.document.add(("nodes",), "`nodes` must hold at least one line, `name: {type: …}`")
            return None
        if self._too_long(raw, ("nodes",)):
            return None
        scope = self._scope("a graph", {"request": task.request}, raw, ("nodes",), self._names_in_bodies(raw))
        bindings = self._lines(raw, ("nodes",), scope, ("request", "engine"))
        name, description = str(self.data.get("task")), str(self.data.get("description", ""))
        self._result(bindings, task.reply, f"the task `{name}` replies", scope)
        return Graph(name, task.request, task.reply, bindings, description, self.folder)

    # --- lists of lines

    def _too_long(self, raw: Mapping[str, Any], at: KeyPath) -> bool:
        if len(raw) > MAX_LINES:
            self.document.add(at, f"this list has {len(raw)} lines; at most {MAX_LINES} are allowed")
        return len(raw) > MAX_LINES

    def _scope(
        self,
        what: str,
        roots: Mapping[str, Any],
        raw: Mapping[str, Any],
        path: KeyPath,
        outside: Mapping[str, str],
    ) -> Scope:
        return Scope(what, roots, {name: self.document.line((*path, name)) for name in raw}, outside)

    @staticmethod
    def _names_in_bodies(raw: Mapping[str, Any]) -> dict[str, str]:
        bodies = {name: line.get("body") for name, line in raw.items() if isinstance(line, dict)}
        return {
            inner: f"is a line of the body of `{name}`, which only that body reads"
            for name, body in bodies.items()
            if isinstance(body, dict)
            for inner in body
        }

    def _lines(
        self,
        raw: Mapping[str, Any],
        path: KeyPath,
        scope: Scope,
        places: tuple[Place, ...],
        results: Any = NOTHING,
    ) -> tuple[Binding, ...]:
        """The lines of one list.  Those that give `results` need no reader."""
        bindings = []
        for name, line in raw.items():
            self._name(name, (*path, name))
            binding = self._line(name, line, (*path, name), scope, places)
            scope.values.setdefault(name, binding.gives)
            bindings.append(binding)
        for name in list(raw)[:-1]:
            is_result = results is not NOTHING and accepts(results, scope.values[name])
            if name not in scope.was_read and not is_result:
                self.document.add((*path, name), f"nothing reads `{name}`; read it below, or delete the line")
        return tuple(bindings)

    def _name(self, name: str, at: KeyPath) -> None:
        if name in ROOTS:
            self.document.add(at, f"`{name}` is the name of a root; give the line another name")
        elif not (name.isidentifier() and name.isascii()):
            self.document.add(at, f"`{name}` is not a name: letters, digits and `_`, no digit first")

    def _result(self, bindings: tuple[Binding, ...], want: Any, demand: str, scope: Scope) -> None:
        last = bindings[-1]
        if accepts(want, last.gives):
            return
        others = [name for name in scope.giving(want) if name in scope.lines]
        offer = f"; `{others[0]}` gives it" if others else ""
        given = f"the last line, `{last.name}`, gives {show(last.gives)}"
        self.document.add(last.line, f"{demand} {show(want)}, but {given}{offer}")

    # --- one line

    def _line(self, name: str, raw: Any, path: KeyPath, scope: Scope, places: tuple[Place, ...]) -> Binding:
        if not isinstance(raw, dict):
            self.document.add(path, f"`{name}` must be a mapping, such as `{name}: {{type: …}}`")
            raw = {"type": None}
            node_type = None
        else:
            node_type = self._node_type(name, raw, path)
        type_name = str(raw.get("type"))
        in_place = node_type is not None and self._place(node_type, type_name, path, places)
        config = self._config(node_type, raw, path) if node_type else None
        ports, gives = self._ports(node_type, config, raw, path) if node_type and in_place else (None, Any)
        between = getattr(self.node_types, "between", {})
        wire = Wire(name, type_name, path, scope, self.document, between)
        sources = wire.sources(raw.get("from", {}), ports)
        body = self._body(name, node_type, raw, path, scope) if node_type and in_place else ()
        line = self.document.line(path)
        file, number = self.document.place(line)
        place = f"{file.rpartition('/')[2]}:{number}"
        graphs = self._graphs(node_type, config) if ports is not None else {}
        return Binding(name, type_name, node_type or Node, config, sources, gives, line, body, place, graphs)

    def _graphs(self, node_type: type[Node] | None, config: Any) -> dict[str, Graph]:
        """The graphs of the other models that the settings of a line name, which `ports_for` has found."""
        names = getattr(node_type, "names", None)
        found = {name: self.graphs(name) for name in names(config)} if names and self.graphs else {}
        return {name: graph for name, graph in found.items() if graph is not None}

    def _node_type(self, name: str, raw: Mapping[str, Any], path: KeyPath) -> type[Node] | None:
        written = raw.get("type")
        if "type" not in raw:
            near = nearest("type", raw)
            offer = f"did you mean `type` by `{near}`?" if near else f"types: {', '.join(self.node_types)}"
            self.document.add(path, f"`{name}` has no `type`; {offer}")
            return None
        if not isinstance(written, str) or written not in self.node_types:
            meant = getattr(self.node_types, "meant", {}).get(str(written))
            offer = f"; did you mean `{meant}`?" if meant else hint(str(written), self.node_types, "types")
            message = f"unknown node type `{written}`{offer}"
            self.document.add((*path, "type"), message)
            return None
        try:
            return self.node_types[written]
        except ImportError as error:  # an optional engine that is not installed
            self.document.add((*path, "type"), f"the node type `{written}` cannot be used here: {error}")
            return None

    def _place(self, node_type: type[Node], type_name: str, path: KeyPath, places: tuple[Place, ...]) -> bool:
        if node_type.place in places:
            return True
        runs = {
            "request": "runs once per request: put it under `nodes`, not in a body",
            "engine": "owns a loop: put it under `nodes`, not in a body",
            "step": "runs once per step: put it in the `body` of an engine node, not under `nodes`",
        }
        self.document.add((*path, "type"), f"`{type_name}` {runs[node_type.place]}")
        return False

    def _config(self, node_type: type[Node], raw: Mapping[str, Any], path: KeyPath) -> Any:
        settings = {key: value for key, value in raw.items() if key not in LINE_KEYS}
        words = LINE_KEYS if node_type.body else LINE_KEYS[:-1]
        config, faults = read_settings(node_type.Config, settings, self.folder, words)
        for at, message in faults:
            self.document.add((*path, *at), message)
        return config

    # --- ports

    def _ports(
        self, node_type: type[Node], config: Any, raw: Mapping[str, Any], path: KeyPath
    ) -> tuple[Ports | None, Any]:
        """Inputs and output: the signature's, or those that `ports_for` returns for these settings."""
        if not issubclass(node_type, PortsBySettings):
            return node.inputs(node_type), node.output(node_type)
        if config is None:
            return None, Any
        try:
            ports, gives = node_type.ports_for(config, lambda name: self._other_graph(name, raw, path))
        except SettingError as error:
            self.document.add((*path, *error.at), error.message)
            return None, Any
        except _Unresolved:
            return None, Any
        return ports, gives

    def _other_graph(self, name: str, raw: Mapping[str, Any], path: KeyPath) -> Graph:
        """The graph of another model.  Records its problems and raises _Unresolved where it has any."""
        settings = {key: value for key, value in raw.items() if key not in LINE_KEYS}
        at = (*path, *(_place_of(name, settings) or ("type",)))
        names = [] if self.graphs is None else self.graphs.names
        try:
            graph = None if self.graphs is None else self.graphs(name)
        except GraphError as error:
            problems = "; ".join(
                f"{problem.source}:{problem.line}: {problem.message}" for problem in error.problems
            )
            self.document.add(at, f"the graph `{name}` has problems of its own: {problems}")
            raise _Unresolved from None
        if graph is None:
            self.document.add(at, f"there is no graph `{name}`{hint(name, names, 'graphs')}")
            raise _Unresolved
        return graph

    # --- bodies

    def _body(
        self, name: str, node_type: type[Node], raw: Mapping[str, Any], path: KeyPath, outer: Scope
    ) -> tuple[Binding, ...]:
        contract, lines = node_type.body, raw.get("body")
        if contract is None:
            if "body" in raw:
                self.document.add((*path, "body"), f"`{raw['type']}` takes no body; delete it")
            return ()
        if not isinstance(lines, dict) or not lines:
            at = (*path, "body") if "body" in raw else path
            self.document.add(
                at,
                f"`{raw['type']}` needs a `body`: lines that start from `{contract.root}`, "
                f"the last of which gives {show(contract.result)}",
            )
            return ()
        if self._too_long(lines, (*path, "body")):
            return ()
        return self._body_lines(name, contract, lines, (*path, "body"), outer.lines)

    def _body_lines(
        self, name: str, contract: BodyContract, lines: Mapping[str, Any], path: KeyPath, outer: Iterable[str]
    ) -> tuple[Binding, ...]:
        outside = dict.fromkeys(outer, "is a line of the request graph, which a body cannot read")
        scope = self._scope(f"the body of `{name}`", {contract.root: contract.gives}, lines, path, outside)
        results = contract.result if contract.several else NOTHING
        bindings = self._lines(lines, path, scope, ("step",), results)
        self._result(bindings, contract.result, f"the body of `{name}` must give", scope)
        return bindings


def _place_of(name: str, settings: Any) -> KeyPath | None:
    """The keys that lead to a value in the settings of a line; None where there is no such value."""
    if settings == name:
        return ()
    entries: Iterable[tuple[Any, Any]] = settings.items() if isinstance(settings, dict) else ()
    if isinstance(settings, list):
        entries = enumerate(settings)
    places = ((key, _place_of(name, value)) for key, value in entries)
    return next(((key, *rest) for key, rest in places if rest is not None), None)
