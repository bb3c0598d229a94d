"""Writes a client's JSON Schema in the words that its compiler knows, whichever dialect it came in.

Schemas come as drafts 4 to 2020-12 define them, as OpenAPI 3.0 changes them, and as serializers write them:
with null for what is absent and with numbers at the bounds of a type.  The normal form has the keywords of
2020-12 that constrain a value, and references of one kind.  Annotations are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

from pipelines.grammars.grammar_limits import MAX_SCHEMA_DEPTH, BoundError
from pipelines.grammars.schema_dialects import constraining
from pipelines.grammars.schema_keywords import (
    NO_GRAMMAR,
    REFERENCES,
    SELDOM_GRAMMAR,
    Schema,
    SchemaError,
    may_be_held,
)
from pipelines.grammars.schema_references import References

OPTIONS = "x-guidance"
"""The compiler's own options, at the root."""


def normal_schema(schema: Schema, *, closes: bool = False) -> Schema:
    """The normal form.  `closes`: objects with named properties take no others, unless they say so.

    Raises SchemaError for a keyword that no grammar holds and for a reference that leads to nothing,
    BoundError for a schema that is nested too deeply.
    """
    writer = _SchemaWriter(schema, NO_GRAMMAR, closes)
    normal = writer.whole()
    if writer.left_out:
        raise SchemaError(_refusal(writer.left_out))
    return normal


def loose_schema(schema: Schema) -> tuple[Schema, set[str]]:
    """The normal form without what no grammar holds, and the keywords that were left out.

    Raises SchemaError and BoundError as `normal_schema`.
    """
    writer = _SchemaWriter(schema, NO_GRAMMAR | SELDOM_GRAMMAR, closes=False)
    return writer.whole(), set(writer.left_out)


def _refusal(left_out: dict[str, str]) -> str:
    reference = left_out.get("$ref")
    if reference is not None:
        return f"Grammar error: the reference {reference[:100]!r} leads to nothing in the JSON schema"
    names = ", ".join(f'"{name}"' for name in sorted(left_out))
    return (
        f"Grammar error: Unimplemented keys: [{names}]: no grammar holds these keywords of the JSON schema; "
        "leave them out, and check what comes back"
    )


class _SchemaWriter:
    """Writes the objects of one schema, each once, without the keywords of `leaves`.

    `left_out` collects those, and references that lead to nothing, each with its text.
    """

    def __init__(self, root: Schema, leaves: Set[str], closes: bool) -> None:
        self.root = root
        self.leaves = leaves
        self.closes = closes
        self.left_out: dict[str, str] = {}
        self._references: References | None = None
        self._written: dict[int, tuple[Schema, Schema]] = {}  # with its source, so that no id is used again
        self._names: dict[int, str] = {}
        self._waiting: list[Schema] = []

    def whole(self) -> Schema:
        """The root with what its references lead to, each under one name in `$defs`."""
        root = self.schema(self.root, 0)
        while self._waiting:
            self.schema(self._waiting.pop(), 0)
        targets = {name: self._written[place][1] for place, name in self._names.items()}
        definitions = {name: dict(target) for name, target in targets.items()}
        for name, target in targets.items():
            target.clear()  # where a target stands in the schema, a reference to it stands now
            target["$ref"] = f"#/$defs/{name}"
        whole = {**root, "$defs": definitions} if definitions else dict(root)
        return {**whole, OPTIONS: self.root[OPTIONS]} if OPTIONS in self.root else whole

    def schema(self, value: Any, depth: int) -> Any:
        """A schema; what is none stays as it is, for the compiler to refuse."""
        if not isinstance(value, dict):
            return value
        if depth > MAX_SCHEMA_DEPTH:
            raise BoundError(f"the JSON schema is nested deeper than {MAX_SCHEMA_DEPTH} levels")
        if id(value) in self._written:
            self._name(value)
        else:
            written: Schema = {}
            self._written[id(value)] = value, written
            written.update(self._object(value, depth))
        return self._written[id(value)][1]

    def _name(self, value: Schema) -> str:
        """The name of an object that is written among the definitions, which it has from now on."""
        return self._names.setdefault(id(value), str(len(self._names)))

    def _object(self, value: Schema, depth: int) -> Schema:
        known = constraining(value)
        found = {name: self._keyword(name, known[name], depth) for name in known if self._holds(name, known)}
        target = self._target(value, known)
        if target is not None:
            found["$ref"] = target
        return self._closed(found) if self.closes else found

    def _holds(self, name: str, known: Schema) -> bool:
        """Whether a keyword is written; what has no grammar is noted."""
        leaves = name in self.leaves and not may_be_held(name, known[name])
        if leaves:
            self.left_out[name] = name
        return not leaves and name not in REFERENCES

    def _keyword(self, name: str, value: Any, depth: int) -> Any:
        write = WRITERS.get(name)
        return value if write is None else write(self, value, depth + 1)

    def _target(self, source: Schema, known: Schema) -> Any:
        """The reference of an object to a definition, None where it has none."""
        reference = next((known[name] for name in REFERENCES if name in known), None)
        if not isinstance(reference, str):
            return reference
        self._references = self._references or References(self.root)
        target = self._references.target(reference, source)
        if not isinstance(target, dict):
            if target is not True:
                self.left_out["$ref"] = reference
            return None
        if id(target) not in self._names:
            self._waiting.append(target)
        return f"#/$defs/{self._name(target)}"

    def _closed(self, found: Schema) -> Schema:
        if isinstance(found.get("properties"), dict) and "patternProperties" not in found:
            found.setdefault("additionalProperties", False)
        return found


def _one(writer: _SchemaWriter, value: Any, depth: int) -> Any:
    return writer.schema(value, depth)


def _list(writer: _SchemaWriter, value: Any, depth: int) -> Any:
    return [writer.schema(each, depth) for each in value] if isinstance(value, list) else value


def _map(writer: _SchemaWriter, value: Any, depth: int) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: writer.schema({} if each is None else each, depth) for name, each in value.items()}


WRITERS: dict[str, Callable[[_SchemaWriter, Any, int], Any]] = {
    "additionalProperties": _one,
    "allOf": _list,
    "anyOf": _list,
    "items": _one,
    "patternProperties": _map,
    "prefixItems": _list,
    "properties": _map,
}
"""Keyword → the function that writes the schemas in its value."""
