"""The OpenAPI document tells of every route, and what it tells is true."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from pathlib import Path

import jsonschema_rs
import pytest
from every_route import ROOT_ROUTES, ROUTES
from openapi_spec_validator import validate
from whole_document import whole_document

from server.http.auth import OPEN_PATHS
from server.openapi.endpoint import OpenAPIEndpoint
from server.openapi.fields_page import page
from server.openapi.operations import OPERATIONS
from server.openapi.root_operations import ROOT_OPERATIONS

TABLES = [
    pytest.param(ROUTES, OPERATIONS, id="under prefixes"),
    pytest.param(ROOT_ROUTES, ROOT_OPERATIONS, id="at the root"),
]
EVERY = [
    each for table in (OPERATIONS, ROOT_OPERATIONS) for methods in table.values() for each in methods.values()
]
BODIES = {body.model.__name__: body for each in EVERY for body in each.bodies}


@pytest.fixture(scope="module")
def told():
    return whole_document()


def test_the_document_is_valid(told):
    """Its paths with names for schemas, and each schema by a faster validator than that of the document."""
    schemas = told["components"]["schemas"]
    validate(told | {"components": told["components"] | {"schemas": {name: {} for name in schemas}}})
    assert [name for name, schema in schemas.items() if not jsonschema_rs.meta.is_valid(schema)] == []
    assert not jsonschema_rs.meta.is_valid({"type": "text"})


@pytest.mark.breadth
def test_the_whole_document_is_valid(told):
    validate(told)


@pytest.mark.parametrize(("routes", "operations"), TABLES)
def test_every_method_of_every_route_is_told(routes, operations):
    answered = {
        (path, name.removeprefix("on_").upper())
        for path, endpoint in routes.items()
        for name in dir(endpoint)
        if re.fullmatch(r"on_(get|head|post|put|patch|delete)", name)
    }
    assert answered == {(path, method) for path, methods in operations.items() for method in methods}


def test_every_operation_has_an_id_of_its_own(told):
    ids = [
        each["operationId"]
        for item in told["paths"].values()
        for each in item.values()
        if isinstance(each, dict)
    ]
    assert len(ids) == len(set(ids)) > 30


def test_paths_without_a_key_say_so(told):
    free = {
        path
        for path, item in told["paths"].items()
        if any(each.get("security") == [] for each in item.values() if isinstance(each, dict))
    }
    assert free == OPEN_PATHS | {"/status/{file}"}


@pytest.mark.parametrize("name", BODIES)
def test_every_field_that_is_not_honoured_is_told_with_its_reason(name, told):
    fields = told["components"]["schemas"][name]["properties"]
    body = BODIES[name]
    assert {
        field_name for field_name in body.ignored if fields[field_name].get("description") is None
    } == set()
    assert {
        field_name: fields[field_name]["description"]
        for field_name in body.refused
        if field_name not in body.model.model_fields
    } == {
        name: f"Refused: {refused.reason}."
        for name, refused in body.refused.items()
        if name not in body.model.model_fields
    }


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/completions", "ErrorReply"),
        ("/v3/completions", "PlainError"),
        ("/v1/messages", "AnthropicErrorReply"),
    ],
)
def test_errors_have_the_shape_of_their_dialect(path, shape, told):
    for status, response in told["paths"][path]["post"]["responses"].items():
        if status != "200":
            name = response["$ref"].rpartition("/")[2]
            content = told["components"]["responses"][name]["content"]
            assert content == {"application/json": {"schema": {"$ref": f"#/components/schemas/{shape}"}}}


def test_the_document_and_its_page_are_served_without_a_key(make_rig, told):
    rig = make_rig(api_keys=("secret",))
    assert rig.get("/openapi.json").json == told
    page = rig.get("/docs")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")


def test_the_page_needs_nothing_but_this_server(rig):
    page = rig.get("/docs").body.decode()
    assert re.findall(r"""(?:src|href|fetch|import)\W+["'(]?(?:https?:)?//""", page) == []
    assert re.findall(r"https?://\S+", page) == []


def test_the_page_of_fields_is_up_to_date():
    written = Path(__file__).parents[3] / "docs" / "fields.md"
    assert written.read_text() == page(), "python -m server.openapi.fields_page > docs/fields.md"


def test_the_document_is_made_once_and_sent_small():
    """However many ask for it at once."""
    calls = []
    endpoint = OpenAPIEndpoint(lambda: calls.append(1) or json.dumps({"a": "b" * 9999}).encode())

    async def scenario():
        return await asyncio.gather(*[endpoint._made() for _ in range(32)])

    (document,) = {*asyncio.run(scenario())}
    assert calls == [1]
    assert json.loads(gzip.decompress(document.gzipped)) == json.loads(document.plain)
    assert len(document.gzipped) < len(document.plain) // 8


def test_a_client_that_has_the_document_gets_no_copy(rig):
    plain = rig.get("/openapi.json")
    small = rig.get("/openapi.json", accept_encoding="gzip, deflate")
    assert small.headers["content-encoding"] == "gzip"
    assert gzip.decompress(small.body) == plain.body
    again = rig.get("/openapi.json", if_none_match=plain.headers["etag"])
    assert (again.status, again.body) == (304, b"")
