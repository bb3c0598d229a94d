"""Converts models, pydantic's and msgspec's, to the schemas of an OpenAPI document.

Request models get their ignored and refused fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from msgspec.json import schema_components
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from pipelines.requests.fields.known_fields import Refused

REF = "#/components/schemas/{model}"
STRUCT_REF = "#/components/schemas/{name}"

Model = type[BaseModel] | type[msgspec.Struct]
Schema = dict[str, Any]
Mode = Literal["validation", "serialization"]


@dataclass(frozen=True, eq=False)
class BodySchema:
    """A request model, with the tables of accepted fields that the model does not declare.

    `passed` are fields that have the meaning they have in the model `like`.
    """

    model: Model
    ignored: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, Refused] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    like: type[BaseModel] | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that the model declares."""
        if issubclass(self.model, BaseModel):
            return tuple(self.model.model_fields)
        return self.model.__struct_fields__


class Schemas:
    """The schema components of a document; `body` and `reply` return references to them."""

    def __init__(self, bodies: Iterable[BodySchema], replies: Iterable[Model]) -> None:
        bodies = list(bodies)
        both: list[tuple[Model, Mode]] = [(body.model, "validation") for body in bodies]
        both += [(reply, "serialization") for reply in replies]
        modes = [(model, mode) for model, mode in both if issubclass(model, BaseModel)]
        refs: Any
        refs, definitions = models_json_schema(modes, ref_template=REF)
        self.components: dict[str, Schema] = definitions.get("$defs", {})
        structs = [(model, mode) for model, mode in both if not issubclass(model, BaseModel)]
        struct_refs, components = schema_components([model for model, _ in structs], ref_template=STRUCT_REF)
        self.components |= components
        self._refs: dict[tuple[Model, Mode], Schema] = {
            **refs,
            **dict(zip(structs, struct_refs, strict=True)),
        }
        for body in bodies:
            self._complete(body)

    def body(self, bodies: Iterable[BodySchema]) -> Schema:
        return _one_of([self._refs[body.model, "validation"] for body in bodies])

    def reply(self, models: Iterable[Model]) -> Schema:
        return _one_of([self._refs[model, "serialization"] for model in models])

    def _complete(self, body: BodySchema) -> None:
        """Add the fields of the body's tables to its schema."""
        schema = self._component(body.model)
        fields: dict[str, Schema] = schema.setdefault("properties", {})
        if body.like is not None:
            known = self._component(body.like)["properties"]
            fields |= {name: known[name] for name in body.passed if name in known}
        for name, reason in body.ignored.items():
            fields[name] = {**fields.get(name, {}), "description": f"Ignored: {reason}."}
        for name, refused in body.refused.items():
            fields.setdefault(name, _refused(refused))
        schema["additionalProperties"] = True

    def _component(self, model: Model) -> Schema:
        name = self._refs[model, "validation"]["$ref"].rpartition("/")[2]
        return self.components[name]


def _refused(refused: Refused) -> Schema:
    """The schema of a field that accepts only its neutral values."""
    passing = [value for value in refused.neutral if value is not None]
    return {"description": f"Refused: {refused.reason}.", "enum": [*passing, None]}


def _one_of(schemas: list[Schema]) -> Schema:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
