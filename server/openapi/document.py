"""Builds the OpenAPI 3.1 document of every route from `operations.py` (paths) and `schemas.py` (models)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, get_type_hints

from pydantic import BaseModel

from server.base.version import VERSION
from server.dialects import OVMS, Dialect, Dialects
from server.http.auth import is_open
from server.openapi.operation import ERRORS, Operation
from server.openapi.operations import OPERATIONS
from server.openapi.root_operations import ROOT_OPERATIONS
from server.openapi.schemas import Model, Schema, Schemas
from server.services.paths import PREFIXES

RESPONSES = "#/components/responses/"
EVENTS = "text/event-stream"
JSON = "application/json"
DESCRIPTION = """\
OpenAI's API with vLLM's fields under /v1, OpenVINO Model Server's paths under /v3 and /v3/v1.

HEAD is answered wherever GET is, and is not listed.

A field of a request is honoured, refused with a 400 that names it, or marked `Ignored` with the reason.
"""


def document(paths: Iterable[str], dialects: Dialects) -> dict[str, Any]:
    """The OpenAPI document of whole path templates, as routes are written."""
    items = {path: methods_of(path) for path in paths}
    spoken = {dialect.name: dialect for path in items for dialect in [dialects.of(path)]}.values()
    all_operations = [operation for methods in items.values() for operation in methods.values()]
    bodies = {body.model: body for operation in all_operations for body in operation.bodies}
    schemas = Schemas(bodies.values(), _replies(all_operations, spoken))
    return {
        "openapi": "3.1.0",
        "info": {"title": "Braid", "version": VERSION, "description": DESCRIPTION},
        "paths": {
            template_of(path): _path_item(path, methods, dialects.of(path), schemas)
            for path, methods in items.items()
        },
        "components": {
            "schemas": schemas.components,
            "responses": {
                _error_name(dialect, status): _error(dialect, status, schemas)
                for dialect in spoken
                for status in ERRORS
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        "security": [{"bearer": []}, {"header": []}],
    }


def _replies(operations: Iterable[Operation], spoken: Iterable[Dialect]) -> set[Model]:
    models: set[Model] = {_error_model(dialect) for dialect in spoken}
    for operation in operations:
        models |= {*operation.reply} if isinstance(operation.reply, tuple) else set()
        models |= {operation.event} if operation.event else set()
    return models


def methods_of(path: str) -> dict[str, Operation]:
    """What is said of the methods (GET, POST …) of a path, with its prefix or without one."""
    ends = (path.removeprefix(prefix) for prefix in reversed(PREFIXES) if path.startswith(f"{prefix}/"))
    return ROOT_OPERATIONS.get(path) or next(OPERATIONS[end] for end in ends if end in OPERATIONS)


def template_of(path: str) -> str:
    """A route's path template without falcon's converters."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)


def _path_item(path: str, methods: dict[str, Operation], dialect: Dialect, schemas: Schemas) -> Schema:
    names = re.findall(r"\{(\w+)\}", template_of(path))
    item: Schema = {
        method.lower(): _operation(f"{method.lower()} {path}", operation, dialect, schemas)
        for method, operation in methods.items()
    }
    if names:
        item["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    return item


def _operation(name: str, operation: Operation, dialect: Dialect, schemas: Schemas) -> Schema:
    """`name` is method and path."""
    errors = [*operation.errors, *([412] if operation.bodies and dialect is OVMS else [])]
    schema: Schema = {
        "summary": operation.summary,
        "operationId": re.sub(r"\W+", "_", template_of(name)).strip("_"),
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
    return schema | ({"security": []} if is_open(name.partition(" ")[2]) else {})


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
