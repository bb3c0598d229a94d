"""Resolves the `from` of a line: the source of each input, with the types compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphs.errors import hint, nearest
from graphs.flow import accepts, fields, show
from graphs.graph import ROOTS, Source
from graphs.node import Port
from graphs.read import GraphDocument, KeyPath

Ports = Mapping[str, Port]


@dataclass
class Scope:
    """The names that the lines of one list can read.

    `values` holds the type of every root and of every line above; the type of an invalid line is `Any`.
    `lines` holds every name of the list with its line, above and below; `outside` maps names of other lists
    to the reason why they cannot be read.
    """

    what: str
    roots: Mapping[str, Any]
    lines: Mapping[str, int]
    outside: Mapping[str, str]
    values: dict[str, Any] = field(default_factory=dict)
    was_read: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.values = {**self.roots, **self.values}

    def giving(self, want: Any) -> list[str]:
        """The names that fit a port of type `want`: lines from the nearest up, then fields of the roots."""
        names = [name for name, have in reversed(self.values.items()) if accepts(want, have)]
        return names + [
            f"{root}.{name}"
            for root, kind in self.roots.items()
            for name, have in fields(kind).items()
            if accepts(want, have)
        ]


class Wire:
    """Connects the inputs of one line."""

    def __init__(
        self,
        name: str,
        type_name: str,
        path: KeyPath,
        scope: Scope,
        document: GraphDocument,
        between: Mapping[tuple[str, str], str],
    ) -> None:
        """`between`: a type that a line gives and one that an input takes → the node type from the one to the
        other, for the error text.
        """
        self.name = name
        self.type_name = type_name
        self.path = path
        self.scope = scope
        self.document = document
        self._between = between

    def sources(self, written: Any, ports: Ports | None) -> dict[str, Source]:
        """Sources by port, in the order of `ports`; problems are recorded in the document.

        `written` is the value of `from`, or {} where the line has none.  With `ports` None (the node's type
        is unknown) the names are looked up and nothing is compared.
        """
        named = self._named(written, ports)
        if named is None:
            return {}
        resolved = {port: self._resolve(ref, self._at(written, port)) for port, ref in named.items()}
        if ports is None:
            return {}
        meant = set()
        for port in [port for port in resolved if port not in ports]:
            message = f"`{self.type_name}` has no input `{port}`{hint(port, ports, 'inputs')}"
            self.document.add(self._at(written, port), message)
            meant.add(nearest(port, ports))
        return {
            port: source
            for port, wanted in ports.items()
            if port not in meant and (source := self._source(port, wanted, resolved, self._at(written, port)))
        }

    def _named(self, written: Any, ports: Ports | None) -> Mapping[str, Any] | None:
        """References by port, or None where `from` is invalid."""
        if isinstance(written, str):
            if ports is None:
                return {"": written}
            if not ports:
                self._from_problem(f"`{self.type_name}` takes no input; delete `from`")
                return None
            return {next(iter(ports)): written}
        if isinstance(written, dict):
            return written
        example = f"{{{next(iter(ports or ()), 'input')}: NAME}}"
        self._from_problem(f"`from` is a name or a mapping of inputs to names, such as {example}")
        for port in (ports or {}).values():
            self._meant(port.type)
        return None

    def _from_problem(self, message: str) -> None:
        self.document.add((*self.path, "from"), message)

    def _at(self, written: Any, port: str) -> KeyPath:
        return (*self.path, "from", port) if isinstance(written, dict) else (*self.path, "from")

    def _source(
        self, name: str, port: Port, resolved: Mapping[str, tuple[Source, Any] | None], at: KeyPath
    ) -> Source | None:
        """The source of one input: what `from` names, else the root of its name, else None."""
        if name not in resolved and name in self.scope.roots:
            return self._fitting(name, port.type, Source(name), self.scope.roots[name], self.path)
        if name not in resolved:
            if not port.optional:
                self._missing(name, port.type)
            return None
        fed = resolved[name]
        if fed is None:
            self._meant(port.type)
            return None
        return self._fitting(name, port.type, *fed, at)

    def _fitting(self, port: str, want: Any, source: Source, have: Any, at: KeyPath) -> Source | None:
        if accepts(want, have):
            return source
        takes = f"the input `{port}` of `{self.type_name}` takes {show(want)}"
        between = self._between.get((show(have), show(want)))
        step = f"; a `{between}` line makes one from the other" if between else ""
        self.document.add(at, f"{takes}, but `{source}` gives {show(have)}{step}{self._offer(want, '')}")
        return None

    def _missing(self, port: str, want: Any) -> None:
        offer = self._offer(want, "; no line above gives it")
        self.document.add(self.path, f"`{self.type_name}` needs the input `{port}`: {show(want)}{offer}")

    def _offer(self, want: Any, otherwise: str) -> str:
        names = self._meant(want)
        return f"; to be read here: {', '.join(names)}" if names else otherwise

    def _meant(self, want: Any) -> list[str]:
        """The names that an input without a source may mean; none of them is reported as unread as well."""
        names = self.scope.giving(want)
        self.scope.was_read.update(names)
        return names

    def _resolve(self, reference: Any, at: KeyPath) -> tuple[Source, Any] | None:
        """What `a.b.c` names and its type; None, with a problem recorded, where it names nothing."""
        if not isinstance(reference, str) or not all(part.isidentifier() for part in reference.split(".")):
            self.document.add(at, f"`{reference}` is not a name of a value; write NAME or NAME.FIELD")
            return None
        root, *names = reference.split(".")
        if root not in self.scope.values:
            self.document.add(at, self._unknown(root))
            return None
        self.scope.was_read.add(root)
        kind = self.scope.values[root]
        for name in names:
            known = fields(kind)
            if kind is not Any and name not in known:
                self.document.add(at, f"{show(kind)} has no field `{name}`{hint(name, known, 'fields')}")
                return None
            kind = known.get(name, Any)
        return Source(root, tuple(names)), kind

    def _unknown(self, root: str) -> str:
        """Why `root` cannot be read here."""
        scope = self.scope
        if root == self.name:
            return f"`{root}` reads itself; a line reads only lines above it"
        if root in scope.lines:
            return f"`{root}` is below, at line {scope.lines[root]}; a line reads only lines above it"
        readable = list(scope.values)
        if root in scope.outside:
            return f"`{root}` {scope.outside[root]}; readable here: {', '.join(readable)}"
        if root in ROOTS:
            return f"there is no `{root}` in {scope.what}; its root is {_listed(scope.roots)}"
        if (near := nearest(root, readable)) is not None:
            scope.was_read.add(near)
        return f"no line above is called `{root}`{hint(root, readable, 'readable here')}"


def _listed(names: Iterable[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)
