"""JSON Schemas as clients' libraries write them, over each API: replies are valid, and say what is not held."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Literal

import httpx
import jsonschema
import openai
import pytest
from breadth import after
from every_case import every_case
from later import Later
from openai import OpenAI
from pydantic import BaseModel, Field, SecretStr

anthropic = Later("anthropic")

MODEL = "braid-demo"
ASKED = [{"role": "user", "content": "Ada is 36 years old. Write name and age as JSON."}]
HEADER = "x-braid-ignored-fields"
INT64 = 2**63
PERSON = {
    "name": {"type": "string", "maxLength": 8.0},
    "age": {"type": "integer", "minimum": 0, "maximum": 200},
}


def person(**more):
    return {
        "type": "object",
        "properties": PERSON,
        "required": ["name", "age"],
        "additionalProperties": False,
        **more,
    }


def with_name(**more):
    return person(properties={**PERSON, "name": {"type": "string", "maxLength": 8, **more}})


def referring(name, written):
    return {"$ref": f"#/$defs/{written}", "$defs": {name: person()}}


SCHEMAS = {
    **{f"format {name}": with_name(format=name) for name in ("password", "byte", "uri-reference", "regex", "color", "")},
    "float counts": with_name(maxLength=5.0),
    "int64": person(properties={**PERSON, "age": {"type": "integer", "minimum": -INT64, "maximum": INT64 - 1}}),
    "double": person(properties={**PERSON, "age": {"type": "number", "maximum": 1.7976931348623157e308}}),
    "long": with_name(minLength=0, maxLength=8, description=None, default=None),
    "nulls": with_name(enum=None, format=None, pattern=None, const=None, allOf=None),
    "null required": {**person(), "required": None, "patternProperties": None, "$ref": None, "oneOf": None},
    "brackets": referring("Person[int]", "Person[int]"),
    "unicode": referring("人", "人"),
    "encoded": referring("a b", "a%20b"),
    "spaces": referring("a b", "a b"),
    "components": {"$ref": "#/components/schemas/P", "components": {"schemas": {"P": person()}}},
    "draft 4": {"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://a/b", **person(minProperties=2)},
    "exclusive": person(properties={**PERSON, "age": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 99}}),
    "nullable": with_name(nullable=True),
    "one of": {"oneOf": [person(), person(required=["name"])]},
    "optional discriminator": {"oneOf": [with_name(), with_name(enum=["Ada"])], "discriminator": {"propertyName": "name"}},
    "record": person(properties={**PERSON, "more": {"type": "object", "propertyNames": {"type": "string"}, "maxProperties": 0.0}}),
    "annotations": person(title="P", examples=[{}], **{"x-order": 1, "$comment": "c", "readOnly": False}),
}  # fmt: skip


def meant(schema):
    """Null is an absent keyword; of several schemas, one or more hold."""

    def read(each):
        return {{"oneOf": "anyOf"}.get(k, k): v for k, v in each.items() if v is not None}

    return json.loads(json.dumps(schema), object_hook=read)


PLACES = {
    "response_format": lambda schema: {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": schema}}},
    "strict": lambda schema: {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": schema, "strict": True}}},
    "structured_outputs": lambda schema: {"structured_outputs": {"json": schema}},
    "guided_json": lambda schema: {"guided_json": json.dumps(schema)},
    "structural_tag": lambda schema: {"structural_tag": {"format": {"type": "json_schema", "json_schema": schema}}},
}  # fmt: skip


def ask(demo, path, **fields) -> httpx.Response:
    return httpx.post(f"{demo.url}/v1/{path}", json={"model": MODEL, **fields})


def test_a_schema_of_any_dialect_gives_a_valid_reply(demo):
    cases = [
        (name, place) for name in SCHEMAS for place in PLACES if place == "response_format" or name == "nulls"
    ]

    def check(case):
        name, place = case
        reply = ask(demo, "chat/completions", messages=ASKED, max_tokens=120, **PLACES[place](SCHEMAS[name]))
        assert reply.status_code == 200, (case, reply.text)
        (choice,) = reply.json()["choices"]
        if choice["finish_reason"] == "stop":
            schema = meant(SCHEMAS[name])
            validator = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
            validator(schema).validate(json.loads(choice["message"]["content"]))
        return choice["finish_reason"]

    with ThreadPoolExecutor(8) as threads:
        endings = list(threads.map(check, cases))
    assert endings.count("stop") > len(endings) * 0.8


class Unit(Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


class SetTags(BaseModel):
    """Sets the tags of a city"""

    city: str = Field(max_length=12)
    tags: set[Literal["cold", "warm"]] = Field(max_length=2)
    unit: Unit
    key: SecretStr | None = Field(None, max_length=4)


PARAMETERS = SetTags.model_json_schema()
FUNCTION = {"name": "set_tags", "description": SetTags.__doc__, "parameters": PARAMETERS}
CALL = [{"role": "user", "content": "Tag Oslo as cold."}]


def valid(arguments) -> None:
    """By all of the schema but what has no grammar."""
    loose = json.loads(json.dumps(PARAMETERS).replace("uniqueItems", "x-unique"))
    jsonschema.Draft202012Validator(loose).validate(arguments)


@pytest.mark.parametrize(
    "choice", after(1, ["required", {"type": "function", "function": {"name": "set_tags"}}])
)
@pytest.mark.parametrize("stream", after(1, [False, True]))
def test_a_forced_call_is_held_to_what_has_a_grammar(demo, choice, stream):
    with OpenAI(base_url=f"{demo.url}/v1", api_key="none", max_retries=0) as client:
        reply = client.chat.completions.with_raw_response.create(
            model=MODEL, messages=CALL, tools=[{"type": "function", "function": FUNCTION}], tool_choice=choice, stream=stream, max_tokens=200
        )  # fmt: skip
        assert reply.headers[HEADER] == "uniqueItems;tool=set_tags"
        if not stream:
            valid(json.loads(reply.parse().choices[0].message.tool_calls[0].function.arguments))


def test_a_forced_call_of_the_other_apis_too(demo):
    with OpenAI(base_url=f"{demo.url}/v1", api_key="none", max_retries=0) as client:
        tool = {"type": "function", **FUNCTION}
        reply = client.responses.with_raw_response.create(
            model=MODEL,
            input="Tag Oslo as cold.",
            tools=[tool],
            tool_choice="required",
            max_output_tokens=200,
        )
    assert reply.headers[HEADER] == "uniqueItems;tool=set_tags"
    valid(json.loads(reply.parse().output[-1].arguments))
    with anthropic.Anthropic(base_url=demo.url, api_key="none", max_retries=0) as client:
        tool = {"name": "set_tags", "input_schema": PARAMETERS}
        reply = client.messages.with_raw_response.create(
            model=MODEL, messages=CALL, max_tokens=200, tools=[tool], tool_choice={"type": "any"}
        )
    assert reply.headers[HEADER] == "uniqueItems;tool=set_tags"
    valid(reply.parse().content[-1].input)


LEFT_OUT = [
    ({"properties": {"a": {"not": {"type": "string"}, "type": "integer"}}}, "not;tool=f"),
    (
        {"properties": {"a": {"pattern": "^(?=a)a+$"}}, "if": {}, "then": {}},
        "pattern;tool=f, if;tool=f, then;tool=f",
    ),
    ({"properties": {"a": {"type": "file"}}}, "parameters;tool=f"),
    ({"properties": {"a": {"$ref": "http://example.com/a.json"}}}, "$ref;tool=f"),
    ({"properties": {"a": {"format": "password"}}}, None),
]


@pytest.mark.parametrize(("parameters", "said"), LEFT_OUT)
@pytest.mark.parametrize("choice", after(1, ["required", "auto"]))
def test_the_header_says_what_calls_are_not_held_to(demo, parameters, said, choice):
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    reply = ask(demo, "chat/completions", messages=CALL, tools=[tool], tool_choice=choice, max_tokens=4)
    assert reply.status_code == 200, reply.text
    assert set((reply.headers.get(HEADER) or "").split(", ")) == set(
        (said or "").replace("$", "?").split(", ")
    )


@pytest.mark.parametrize(
    ("where", "fields"),
    [
        ("tools", {"tools": [{"type": "function", "function": {**FUNCTION, "strict": True}}], "tool_choice": "required"}),
        ("tools", {"tools": [{"type": "function", "function": {**FUNCTION, "strict": True}}]}),
        ("response_format", PLACES["strict"](PARAMETERS)),
        ("response_format", {**PLACES["strict"](PARAMETERS), "tools": [{"type": "function", "function": {"name": "f"}}]}),
        ("structured_outputs.json", PLACES["structured_outputs"](PARAMETERS)),
        ("guided_json", PLACES["guided_json"](PARAMETERS)),
    ],
)  # fmt: skip
def test_what_must_hold_and_has_no_grammar_is_refused_by_name(demo, where, fields):
    reply = ask(demo, "chat/completions", messages=CALL, max_tokens=4, **fields)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == where
    assert '"uniqueItems"' in reply.json()["error"]["message"]


OUTPUT = {"type": "json_schema", "name": "p", "schema": PARAMETERS}
NAMED = {"name": "p", "schema": PARAMETERS}
TAGGED = {"model": MODEL, "messages": CALL}
LOOSE = [
    ("v1/chat/completions", {**TAGGED, **PLACES["response_format"](PARAMETERS), "max_tokens": 200}),
    (
        "v1/chat/completions",
        {**TAGGED, "response_format": {"type": "json_schema", "json_schema": {**NAMED, "strict": False}}, "tools": [{"type": "function", "function": {"name": "f"}}]},
    ),
    ("v1/responses", {"model": MODEL, "input": "Tag Oslo as cold.", "text": {"format": OUTPUT}, "max_output_tokens": 200}),
    ("api/chat", {**TAGGED, "format": PARAMETERS, "stream": False, "options": {"num_predict": 200}}),
    ("api/generate", {"model": MODEL, "prompt": "Tag Oslo as cold.", "format": PARAMETERS, "stream": False, "options": {"num_predict": 200}}),
    (
        f"v1beta/models/{MODEL}:generateContent",
        {"contents": [{"parts": [{"text": "Tag Oslo as cold."}]}], "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": PARAMETERS, "maxOutputTokens": 200}},
    ),
]  # fmt: skip


def texts(value):
    """All texts in a reply."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] if isinstance(value, str) else [text for each in inner for text in texts(each)]


@every_case(("path", "body"), LOOSE)
def test_a_format_that_is_not_strict_is_held_to_what_has_a_grammar(path, body, demo):
    reply = httpx.post(f"{demo.url}/{path}", json=body)
    assert reply.status_code == 200, reply.text
    assert reply.headers[HEADER] == "uniqueItems;field=response_format"
    written = [text for text in texts(reply.json()) if text.startswith("{")]
    if "tools" not in body:  # else the model may call one instead
        assert written
        valid(json.loads(written[0]))


STRICT = [
    ("v1/responses", {"model": MODEL, "input": "hi", "text": {"format": {**OUTPUT, "strict": True}}}),
    ("v1/messages", {**TAGGED, "max_tokens": 9, "output_config": {"format": {"type": "json_schema", "schema": PARAMETERS}}}),
    ("api/chat", {**TAGGED, "format": {"type": "file"}}),
    ("v1/chat/completions", {**TAGGED, **PLACES["response_format"]({"type": "integer", "minimum": 5, "maximum": 1})}),
]  # fmt: skip


@every_case(("path", "body"), STRICT)
def test_a_format_that_is_strict_or_no_schema_is_refused(path, body, demo):
    reply = httpx.post(f"{demo.url}/{path}", json=body)
    assert reply.status_code == 400, reply.text


def test_arguments_are_an_object_even_where_a_schema_allows_null(demo):
    parameters = {
        "type": ["object", "null"],
        "nullable": True,
        "properties": {"a": {"type": "null"}},
        "required": None,
    }
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    reply = ask(demo, "chat/completions", messages=CALL, tools=[tool], tool_choice="required", max_tokens=30)
    arguments = reply.json()["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) in ({}, {"a": None})


def test_the_parse_helper_reads_pydantics_own_dialect(demo):
    class Secret(BaseModel):
        name: SecretStr = Field(max_length=8)
        age: int = Field(ge=-INT64, le=INT64 - 1, lt=1_000)

    with OpenAI(base_url=f"{demo.url}/v1", api_key="none", max_retries=0) as client:
        reply = client.chat.completions.parse(
            model=MODEL, messages=ASKED, response_format=Secret, max_tokens=100
        )
        assert isinstance(reply.choices[0].message.parsed, Secret)
        tool = openai.pydantic_function_tool(Secret, name="remember")
        reply = client.chat.completions.parse(
            model=MODEL, messages=ASKED, tools=[tool], tool_choice="required", max_tokens=100
        )
        assert isinstance(reply.choices[0].message.tool_calls[0].function.parsed_arguments, Secret)
        reply = client.responses.parse(
            model=MODEL, input=ASKED[0]["content"], text_format=Secret, max_output_tokens=100
        )
        assert isinstance(reply.output_parsed, Secret)
