"""Builds the OpenAPI 3.1 document of every route from `operations.py` (paths) and `schemas.py` (models)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any, get_type_hints

from pydantic import BaseModel

from server.base.version import VERSION
from server.dialects import ANTHROPIC, COHERE, KSERVE, OPENAI, OVMS, Dialect, dialect_of
from server.http.auth import is_open
from server.openapi.operation import ERRORS, Operation
from server.openapi.operations import OPERATIONS
from server.openapi.root_operations import ROOT_OPERATIONS
from server.openapi.schemas import Model, Schema, Schemas

DIALECTS = (OPENAI, OVMS, ANTHROPIC, COHERE, KSERVE)
RESPONSES = "#/components/responses/"
EVENTS = "text/event-stream"
JSON = "application/json"
DESCRIPTION = """\
OpenAI's API with vLLM's fields under /v1, OpenVINO Model Server's paths under /v3 and /v3/v1.

A field of a request is honoured, refused with a 400 that names it, or marked `Ignored` with the reason.
"""


def document(prefixes: Iterable[str]) -> dict[str, Any]:
    """The OpenAPI document; prefixed paths appear under each of `prefixes`."""
    operations = [*OPERATIONS.values(), *ROOT_OPERATIONS.values()]
    all_operations = [operation for methods in operations for operation in methods.values()]
    bodies = {body.model: body for operation in all_operations for body in operation.bodies}
    schemas = Schemas(bodies.values(), _replies(all_operations))
    return {
        "openapi": "3.1.0",
        "info": {"title": "Braid", "version": VERSION, "description": DESCRIPTION},
        "paths": dict(_paths(prefixes, schemas)),
        "components": {
            "schemas": schemas.components,
            "responses": {
                _error_name(dialect, status): _error(dialect, status, schemas)
                for dialect in DIALECTS
                for status in ERRORS
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        "security": [{"bearer": []}, {"header": []}],
    }


def _replies(operations: Iterable[Operation]) -> set[Model]:
    models: set[Model] = {_error_model(dialect) for dialect in DIALECTS}
    for operation in operations:
        models |= {*operation.reply} if isinstance(operation.reply, tuple) else set()
        models |= {operation.event} if operation.event else set()
    return models


def _paths(prefixes: Iterable[str], schemas: Schemas) -> Iterator[tuple[str, Schema]]:
    for path, methods in ROOT_OPERATIONS.items():
        yield _template(path), _path_item(path, methods, schemas)
    for prefix in prefixes:
        for path, methods in OPERATIONS.items():
            yield _template(prefix + path), _path_item(prefix + path, methods, schemas)


def _template(path: str) -> str:
    """A route's path template without falcon's converters."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)


def _path_item(path: str, methods: dict[str, Operation], schemas: Schemas) -> Schema:
    names = re.findall(r"\{(\w+)\}", _template(path))
    item: Schema = {
        method.lower(): _operation(path, method, each, schemas) for method, each in methods.items()
    }
    if names:
        item["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    return item


def _operation(path: str, method: str, operation: Operation, schemas: Schemas) -> Schema:
    dialect = dialect_of(path)
    errors = [*operation.errors, *([412] if operation.bodies and dialect is OVMS else [])]
    schema: Schema = {
        "summary": operation.summary,
        "operationId": re.sub(r"\W+", "_", f"{method.lower()}{_template(path)}").strip("_"),
        "tags": [operation.tag],
        "responses": {
            "200": _success(operation, schemas),
            **{str(status): {"$ref": RESPONSES + _error_name(dialect, status)} for status in errors},
        },
    }
    if operation.query:
        schema["parameters"] = [
            {"name": name, "in": "query", "schema": value} for name, value in operation.query.items()
        ]
    if operation.bodies:
        content = {operation.body_type: {"schema": schemas.body(operation.bodies)}}
        schema["requestBody"] = {"required": True, "content": content}
    return schema | ({"security": []} if is_open(path) else {})


def _success(operation: Operation, schemas: Schemas) -> Schema:
    content: Schema = {}
    if isinstance(operation.reply, tuple):
        content[JSON] = {"schema": schemas.reply(operation.reply)}
    elif operation.reply:
        content[operation.reply] = {"schema": {} if operation.reply == JSON else {"type": "string"}}
    if operation.event or operation.streams:
        content[EVENTS] = _events(operation.event, schemas)
    return {"description": "OK", **({"content": content} if content else {})}


def _events(event: type[BaseModel] | None, schemas: Schemas) -> Schema:
    """A stream of server-sent events; `x-event` is the schema of one event's data."""
    schema = {"type": "string", "description": "Server-sent events, with `stream: true`."}
    return {"schema": schema, **({"x-event": schemas.reply([event])} if event else {})}


def _error_name(dialect: Dialect, status: int) -> str:
    return f"{dialect.name}_{status}"


def _error_model(dialect: Dialect) -> type[BaseModel]:
    """The model of the dialect's error bodies."""
    model: type[BaseModel] = get_type_hints(dialect.error)["return"]
    return model


def _error(dialect: Dialect, status: int, schemas: Schemas) -> Schema:
    schema: Schema = {
        "description": HTTPStatus(status).phrase,
        "content": {JSON: {"schema": schemas.reply([_error_model(dialect)])}},
    }
    if status in (429, 503):
        seconds = {"schema": {"type": "integer"}, "description": "Seconds to wait before a retry."}
        schema["headers"] = {"Retry-After": seconds}
    return schema
