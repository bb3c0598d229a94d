"""Gemini's generateContent: what its bodies become, and the shapes of its replies, streams and errors."""

from __future__ import annotations

import json
import re

import pytest
from every_case import every_case
from scripted import ScriptedPipeline, said

from pipelines.base.errors import RequestError
from pipelines.values.reply_values import ToolCallPiece
from server.apis.gemini.endpoint import ArrayEndpoint, EventsEndpoint
from server.apis.gemini.request import GeminiRequest
from server.apis.gemini.schemas import json_schema
from server.http.auth import take_key

MODEL = "/v1beta/models/tiny"
WEATHER = {
    "name": "get_weather",
    "description": "Weather",
    "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING", "nullable": True}}},
}


def content(*parts, role="user"):
    return {"role": role, "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def asked(*contents, **more):
    body = {"contents": [*contents] or [content("hi")], **more}
    return GeminiRequest.model_validate(body).chat("tiny").generation(512)


def refusal(*contents, **more):
    with pytest.raises(RequestError) as caught:
        asked(*contents, **more)
    return caught.value


def test_a_conversation_with_calls():
    call = {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}, "thoughtSignature": "x"}
    result = {"functionResponse": {"name": "get_weather", "response": {"output": "4 degrees"}}}
    generation = asked(
        content("Weather?"),
        content({"text": "Hm", "thought": True}, "Look", call, call, role="model"),
        content(result, {"functionResponse": {"name": "get_weather", "response": {"a": 1}}}, "and?"),
        systemInstruction=content("Be brief.", role="user"),
    )
    system, _, model, first, second, user = generation.messages
    assert (system["role"], system["content"]) == ("system", "Be brief.")
    assert (model["content"], model["reasoning"]) == ("Look", "Hm")
    assert [tool_call["id"] for tool_call in model["tool_calls"]] == ["call_1", "call_2"]
    assert (first["tool_call_id"], first["content"]) == ("call_1", "4 degrees")
    assert (second["tool_call_id"], second["content"]) == ("call_2", '{"a": 1}')
    assert user["content"] == "and?"


def test_settings_have_their_meaning():
    config = {
        "temperature": 0.5,
        "topP": 0.9,
        "top_k": 7,
        "maxOutputTokens": 9,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseSchema": {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}},
    }
    generation = asked(generationConfig=config)
    assert {name: generation.sampling[name] for name in ("temperature", "top_p", "top_k", "max_tokens")} == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 7,
        "max_tokens": 9,
    }
    assert generation.stop == ["END"]
    assert generation.constraint.value["properties"] == {"a": {"type": "integer"}}


def test_an_image_is_shown():
    part = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    (image,) = asked(content("a", part)).images
    assert image.url == "data:image/png;base64,AAAA"


@pytest.mark.parametrize(
    ("config", "forced", "parses"),
    [
        (None, None, True),
        ({"mode": "AUTO"}, None, True),
        ({"mode": "ANY"}, "required", True),
        ({"mode": "ANY", "allowedFunctionNames": ["get_weather"]}, "get_weather", True),
        ({"mode": "NONE"}, None, False),
    ],
)
def test_functions_are_called_as_the_client_says(config, forced, parses):
    tools = [{"googleSearch": {}}, {"functionDeclarations": [WEATHER]}]
    generation = asked(tools=tools, toolConfig={"functionCallingConfig": config})
    assert (generation.tool_choice, generation.parse_tools) == (forced, parses)
    (tool,) = generation.tools
    assert tool["function"]["parameters"] == json_schema(WEATHER["parameters"])


def test_schemas():
    given = {"type": "ARRAY", "items": {"anyOf": [{"type": "STRING", "format": "enum", "enum": ["a"]}]}}
    assert json_schema(given) == {"type": "array", "items": {"anyOf": [{"type": "string", "enum": ["a"]}]}}
    assert json_schema({"type": "STRING", "nullable": True}) == {
        "anyOf": [{"type": "string"}, {"type": "null"}]
    }


BOUNDS = [
    (key, value, number)
    for key in ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
    for value, number in (("3", 3), (3, 3), ("x", "x"), ("", ""), ("9" * 400, 10**19 - 1), ("-1", "-1"))
]


@every_case(("key", "value", "number"), BOUNDS)
def test_bounds_are_numbers_also_where_they_are_text(key, value, number):
    """google-genai for JavaScript has them as text alone, as 64-bit numbers in JSON of Google's APIs are."""
    snake = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", key)
    for name in (key, snake):
        inner = {"type": "STRING", name: value}
        schema = {"type": "OBJECT", "properties": {"a": {"type": "ARRAY", "items": inner}, name: inner}}
        read = json_schema(schema)["properties"]
        assert read["a"]["items"] == read[name] == {"type": "string", key: number}


SAME = [
    ({"any_of": [{"type": "STRING"}]}, {"anyOf": [{"type": "string"}]}),
    ({"type": "TYPE_UNSPECIFIED", "title": "a"}, {"title": "a"}),
    ({"minimum": 1.5, "maximum": 2}, {"minimum": 1.5, "maximum": 2}),
    (
        {"properties": {"pet": {"ref": "#/defs/Pet"}}, "defs": {"Pet": {"type": "OBJECT"}}},
        {"properties": {"pet": {"$ref": "#/$defs/Pet"}}, "$defs": {"Pet": {"type": "object"}}},
    ),
    ({"properties": {"defs": {"type": "STRING"}}}, {"properties": {"defs": {"type": "string"}}}),
]


@every_case(("schema", "read"), SAME)
def test_other_names_of_keywords_are_read(schema, read):
    assert json_schema(schema) == read


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tools": [{"googleSearch": {}}]}, "tools"),
        ({"cachedContent": "cachedContents/1"}, "cachedContent"),
        ({"generationConfig": {"response_modalities": ["AUDIO"]}}, "generationConfig.responseModalities"),
    ],
)
def test_what_is_not_served_is_refused_by_name(fields, field):
    assert refusal(**fields).field == field


@pytest.mark.parametrize(
    ("role", "part", "field"),
    [
        ("model", {"inlineData": {"mimeType": "image/png", "data": "AA=="}}, "inlineData"),
        ("model", {"functionResponse": {"name": "a", "response": {}}}, "functionResponse"),
        ("user", {"functionCall": {"name": "a", "args": {}}}, "functionCall"),
    ],
)
def test_a_part_that_has_no_place_in_its_turn_is_refused_by_name(rig, role, part, field):
    body = {"contents": [{"role": role, "parts": [{"text": "a"}, part]}]}
    answer = rig.post("/v1beta/models/tiny:generateContent", body)
    assert (answer.status, answer.error["status"]) == (400, "INVALID_ARGUMENT")
    assert f"contents.0.parts.1.{field}" in answer.error["message"]


def test_a_system_instruction_is_text(rig):
    image = {"inlineData": {"mimeType": "image/png", "data": "AA=="}}
    body = {"contents": [{"parts": [{"text": "a"}]}], "systemInstruction": {"parts": [image]}}
    answer = rig.post("/v1beta/models/tiny:generateContent", body)
    assert (answer.status, "systemInstruction.parts.0.inlineData" in answer.error["message"]) == (400, True)


def test_a_model_that_does_not_chat_lists_no_methods(make_rig):
    rig = make_rig(ScriptedPipeline(task="embed"))
    assert rig.get("/v1beta/models/tiny").json["supportedGenerationMethods"] == []


def test_a_part_of_which_nothing_is_read_is_refused():
    assert refusal(content("a", {"fileData": {"fileUri": "x"}})).field == "contents.0.parts.1"
    assert asked(safetySettings=[], labels={}).messages == [{"role": "user", "content": "hi"}]


CALLED = [
    [(0, said(reasoning="Hm"))],
    [(0, said("Look."))],
    [(0, said(tool_calls=[ToolCallPiece(0, id="c1", name="get_weather")]))],
    [(0, said(tool_calls=[ToolCallPiece(0, '{"city": "Os')]))],
    [(0, said(tool_calls=[ToolCallPiece(0, 'lo"}')]))],
    [(0, said("", "tool_calls"))],
]
PARTS = [
    {"text": "Look."},
    {"functionCall": {"id": "c1", "name": "get_weather", "args": {"city": "Oslo"}}},
]


@pytest.fixture
def post(make_rig):
    pipeline = ScriptedPipeline()
    pipeline.batches = CALLED
    rig = make_rig(pipeline)
    return lambda path, body: rig.post(path, body)


def test_the_whole_reply(post):
    reply = post(f"{MODEL}:generateContent", {"contents": [content("hi")]}).json
    (candidate,) = reply["candidates"]
    assert candidate == {"index": 0, "content": {"role": "model", "parts": PARTS}, "finishReason": "STOP"}
    assert reply["modelVersion"] == "tiny"
    assert reply["usageMetadata"]["promptTokenCount"] == 3


def test_thoughts_are_sent_where_they_are_wanted(post):
    config = {"thinkingConfig": {"includeThoughts": True}}
    reply = post(f"{MODEL}:generateContent", {"contents": [content("hi")], "generationConfig": config}).json
    assert reply["candidates"][0]["content"]["parts"][0] == {"text": "Hm", "thought": True}


@pytest.mark.parametrize("alt", ["?alt=sse", ""], ids=["events", "array"])
def test_a_stream_is_events_or_an_array(post, alt):
    answer = post(f"{MODEL}:streamGenerateContent{alt}", {"contents": [content("hi")]})
    chunks = answer.events if alt else answer.json
    assert answer.headers["content-type"].startswith("text/event-stream" if alt else "application/json")
    shown = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    assert shown == PARTS
    assert [chunk["candidates"][0].get("finishReason") for chunk in chunks][-1] == "STOP"


def test_a_slow_stream_has_no_comments():
    """gemini-cli fails on a comment: it looks for `data:` behind blank space alone."""
    assert EventsEndpoint.keep_alive == ArrayEndpoint.keep_alive == b"\n"


def test_errors_have_googles_shape(post):
    answer = post(f"{MODEL}:generateContent", {"contents": []})
    assert (answer.status, answer.error["code"], answer.error["status"]) == (400, 400, "INVALID_ARGUMENT")
    answer = post("/v1beta/models/gone:generateContent", {"contents": [content("hi")]})
    assert (answer.status, answer.error["status"]) == (404, "NOT_FOUND")


def test_models(rig):
    listed = rig.get("/v1beta/models").json["models"]
    assert [model["name"] for model in listed] == ["models/tiny"]
    assert rig.get("/v1beta/models/tiny").json == listed[0]


KEYED = [
    (401, "", {}),
    (401, "?key=other", {}),
    (401, "?alt=sse", {}),
    (200, "", {"x-goog-api-key": "se cret+"}),
    (200, "?key=se%20cret%2B", {}),
    (200, "?alt=sse&key=se+cret%2B&x=1", {}),
    (200, "?key=other&key=se+cret%2B", {}),
    (200, "?key=other", {"x-goog-api-key": "se cret+"}),
    (200, "?key=other", {"Authorization": "Bearer se cret+"}),
]


@every_case(("status", "query", "headers"), KEYED)
def test_a_key_may_be_in_googles_header_or_in_the_query(status, query, headers, make_rig):
    rig = make_rig(api_keys=("se cret+",))
    sent = json.dumps({"contents": [content("hi")]}).encode()
    kind = {"content-type": "application/json"}
    for path in (f"{MODEL}:generateContent", "/v1/models/tiny:streamGenerateContent"):
        assert rig.ask("POST", path + query, body=sent, headers={**kind, **headers}).status == status
    assert rig.ask("GET", f"/v1beta/models{query}", headers=headers).status == status
    if "key=se" in query:
        assert rig.ask("GET", f"/v1/models{query}").status == 401, "of other APIs it is no key"


def test_a_key_is_taken_out_of_the_query():
    for query, left in (
        ("key=a%20b&alt=sse&x", "alt=sse&x"),
        ("alt=sse&key=a+b", "alt=sse"),
        ("key=a+b", ""),
    ):
        scope = {"query_string": query.encode()}
        assert (take_key(scope, "key"), scope["query_string"]) == ("a b", left.encode())
    scope = {"query_string": b"monkey=1"}
    assert (take_key(scope, "key"), scope["query_string"]) == (None, b"monkey=1")


HOSTED = [
    ("tools;type=googleSearch", {"tools": [{"functionDeclarations": [WEATHER], "google_search": {}}]}),
    (
        "tools;type=urlContext, tools;type=computerUse",
        {"tools": [{"urlContext": {}}, {"functionDeclarations": [WEATHER]}, {"computerUse": {"environment": "x"}}]},
    ),
    ("", {"tools": [{"functionDeclarations": [WEATHER], "googleSearch": None}]}),
    ("", {"tools": [{"functionDeclarations": [{**WEATHER, "behavior": "BLOCKING", "response": {}}]}]}),
    (
        "",
        {
            "tools": [{"functionDeclarations": [WEATHER]}],
            "toolConfig": {"retrieval_config": {}, "functionCallingConfig": {"streamFunctionCallArguments": True}},
        },
    ),
    ("descripton;nearest=description", {"tools": [{"functionDeclarations": [{**WEATHER, "descripton": "x"}]}]}),
    (
        "contents;type=executableCode, contents;type=codeExecutionResult",
        {
            "contents": [
                content("hi"),
                content({"executableCode": {"code": "1"}}, {"code_execution_result": {"output": "1"}}, "It is 1.", role="model"),
                content("and?"),
            ]
        },
    ),
]  # fmt: skip


@every_case(("header", "fields"), HOSTED)
def test_what_is_left_out_is_named(header, fields, rig):
    given = {"contents": [content("hi")], **fields}
    answer = rig.post(f"{MODEL}:generateContent", given)
    assert answer.status == 200
    assert answer.headers.get("x-braid-ignored-fields", "") == header
    assert len(rig.pipeline.asked.tools) == ("tools" in fields)
    if "contents" in fields:
        assert [turn["content"] for turn in rig.pipeline.asked.messages] == ["hi", "It is 1.", "and?"]


def test_a_call_of_a_server_has_its_place_in_replies_alone():
    part = {"executableCode": {"code": "1"}}
    assert refusal(content(part)).field == "contents.0.parts.0"
