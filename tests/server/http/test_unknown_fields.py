"""Fields that no endpoint knows: ignored at every depth, counted, reported where misspelt; or refused."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipelines.requests.fields import unknown_fields
from pipelines.requests.fields.unknown_fields import MAX_NAME_CHARS, MAX_REPORTED
from server.http.unknown_fields_report import HEADER

USER = {"role": "user", "content": "hi"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {"type": "function", "name": "f", "parameters": {}}
CLAUDE_TOOL = {"name": "f", "input_schema": {}}
CHAT = "/v1/chat/completions"
CHAT_BODY: dict[str, Any] = {
    "model": "tiny",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    "stream": True,
    "stream_options": {"include_usage": True},
    "repetition_detection": {"max_pattern_size": 3, "min_count": 2},
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
    "logits_processors_args": {"thinking_budget": 3},
    "thinking": {"type": "enabled"},
}
HISTORY = {"model": "tiny", "messages": [USER, {"role": "assistant", "tool_calls": [CALL]}, USER]}
OUTPUTS = {"model": "tiny", "prompt": "hi", "structured_outputs": {"choice": ["a"]}}
RESPONSE_BODY: dict[str, Any] = {
    "model": "tiny",
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
    "text": {"format": {"type": "json_schema", "name": "x", "schema": {}}},
    "reasoning": {"effort": "low"},
    "stream": True,
    "stream_options": {},
    "tools": [TOOL],
}
MESSAGES_BODY: dict[str, Any] = {
    "model": "tiny",
    "max_tokens": 5,
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    "thinking": {"type": "disabled"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
    "tools": [CLAUDE_TOOL],
    "tool_choice": {"type": "auto"},
}
EMBED = {"model": "tiny", "input": "hi"}

PLACES: list[tuple[str, dict[str, Any], str, str]] = [
    (CHAT, CHAT_BODY, "", "temprature=temperature"),
    (CHAT, CHAT_BODY, "messages.0", "contents=content"),
    (CHAT, CHAT_BODY, "messages.0.content.0", "texts=text"),
    (CHAT, CHAT_BODY, "response_format", "json_schemas=json_schema"),
    (CHAT, HISTORY, "messages.1.tool_calls.0", "functions=function"),
    (CHAT, HISTORY, "messages.1.tool_calls.0.function", "argument=arguments"),
    (CHAT, CHAT_BODY, "stream_options", "include_usages=include_usage"),
    (CHAT, CHAT_BODY, "repetition_detection", "min_counts=min_count"),
    (CHAT, CHAT_BODY, "response_format.json_schema", "schemas=schema"),
    (CHAT, CHAT_BODY, "logits_processors_args", "thinking_budgets=thinking_budget"),
    (CHAT, CHAT_BODY, "thinking", "types=type"),
    ("/v3/chat/completions", {"model": "tiny", "messages": [USER]}, "", "top-k=top_k"),
    (
        "/v1/chat/completions/batch",
        {"model": "tiny", "messages": [[USER], [USER]]},
        "",
        "max_token=max_tokens",
    ),
    ("/v1/completions", OUTPUTS, "", "prompts=prompt"),
    ("/v1/completions", OUTPUTS, "structured_outputs", "choices=choice"),
    ("/v3/completions", {"model": "tiny", "prompt": "hi"}, "", "prompts=prompt"),
    ("/v1/responses", RESPONSE_BODY, "", "max_output_token=max_output_tokens"),
    ("/v1/responses", RESPONSE_BODY, "input.0", "contents=content"),
    ("/v1/responses", RESPONSE_BODY, "input.0.content.0", "texts=text"),
    ("/v1/responses", RESPONSE_BODY, "text", "formats=format"),
    ("/v1/responses", RESPONSE_BODY, "text.format", "names=name"),
    ("/v1/responses", RESPONSE_BODY, "reasoning", "efforts=effort"),
    ("/v1/responses", RESPONSE_BODY, "stream_options", "include_obfuscations=include_obfuscation"),
    ("/v1/responses", RESPONSE_BODY, "tools.0", "parameter=parameters"),
    ("/v1/responses/input_tokens", {"model": "tiny", "input": "hi"}, "", "instruction=instructions"),
    ("/v1/messages", MESSAGES_BODY, "", "stop_sequence=stop_sequences"),
    ("/v1/messages", MESSAGES_BODY, "messages.0", "contents=content"),
    ("/v1/messages", MESSAGES_BODY, "messages.0.content.0", "texts=text"),
    ("/v1/messages", MESSAGES_BODY, "thinking", "budget_token=budget_tokens"),
    ("/v1/messages", MESSAGES_BODY, "output_config", "efforts=effort"),
    ("/v1/messages", MESSAGES_BODY, "output_config.format", "types=type"),
    ("/v1/messages", MESSAGES_BODY, "tools.0", "descriptions=description"),
    ("/v1/messages", MESSAGES_BODY, "tool_choice", "names=name"),
    ("/v1/embeddings", EMBED, "", "dimension=dimensions"),
    ("/v3/embeddings", EMBED, "", "encoding_formats=encoding_format"),
    ("/pooling", EMBED, "", "use_activations=use_activation"),
    ("/classify", EMBED, "", "use_activations=use_activation"),
    ("/score", {"model": "tiny", "queries": "a", "documents": "b"}, "", "instructions=instruction"),
    ("/v1/rerank", {"model": "tiny", "query": "a", "documents": ["b"]}, "", "top-n=top_n"),
    ("/v3/rerank", {"model": "tiny", "query": "a", "documents": ["b"]}, "", "top-n=top_n"),
    ("/v2/embed", {"model": "tiny", "texts": ["a"]}, "", "input_types=input_type"),
    ("/tokenize", {"model": "tiny", "prompt": "a"}, "", "add_special_token=add_special_tokens"),
    ("/tokenize", {"model": "tiny", "messages": [USER]}, "", "add_special_token=add_special_tokens"),
    ("/v3/tokenize", {"model": "tiny", "text": "a"}, "", "add_special_token=add_special_tokens"),
    ("/detokenize", {"model": "tiny", "tokens": [1]}, "", "token=tokens"),
]
"""Path, body, object in it, and a misspelt field of that object with the known one."""
IDS = [f"{path} {where}" for path, _, where, _ in PLACES]


def spoiled(body: dict[str, Any], where: str, name: str) -> dict[str, Any]:
    """The body with one more field in the object at `where`."""
    body = copy.deepcopy(body)
    inside: Any = body
    for key in where.split(".") if where else ():
        inside = inside[int(key) if key.isdecimal() else key]
    inside[name] = {"some": "thing"}
    return body


@pytest.mark.parametrize(("path", "body", "where", "names"), PLACES, ids=IDS)
def test_a_misspelt_field_is_ignored_and_reported(rig, path, body, where, names):
    name, known = names.split("=")
    plain, answer = rig.post(path, body), rig.post(path, spoiled(body, where, name))
    assert answer.status == plain.status  # 404 where the model of this rig has another task
    assert answer.headers[HEADER.lower()] == f"{name};nearest={known}"
    assert HEADER.lower() not in plain.headers


@pytest.mark.parametrize(("path", "body", "where", "names"), PLACES, ids=IDS)
def test_a_strict_server_refuses_it_with_the_nearest(make_rig, path, body, where, names):
    name, known = names.split("=")
    answer = make_rig(strict_fields=True).post(path, spoiled(body, where, name))
    place = f"{where}." if where else ""
    assert answer.status == 400
    assert f"unknown field `{place}{name}`; did you mean `{known}`?" in answer.body.decode()


def test_a_strict_server_refuses_a_field_like_no_other_too(make_rig):
    rig = make_rig(strict_fields=True)
    assert rig.chat(zzzzqqqq=None).error["message"] == "unknown field `zzzzqqqq`"
    assert len(rig.chat(**{"x" * 1_000_000: 1}).body) < 500


def test_a_field_like_no_other_is_not_reported(rig):
    answer = rig.chat(zzzzqqqq=1, thread={"type": "create"}, usage={"include": True})
    assert answer.status == 200
    assert HEADER.lower() not in answer.headers


def test_a_bad_value_of_a_known_field_is_refused_beside_unknown_ones(rig):
    answer = rig.chat(temprature=1, temperature="hot")
    assert (answer.status, answer.error["param"]) == (400, "temperature")


@pytest.mark.parametrize(
    "name", ["températures", "temperature\r\nX:", "temperature\x00", "t\u2028emperature"]
)
def test_the_header_is_safe(rig, name):
    value = rig.chat(**{name: 1}).headers[HEADER.lower()]
    assert value.endswith(";nearest=temperature")
    assert value.isascii()
    assert value.isprintable()
    assert not {":", " "} & set(value)


def test_the_header_is_bounded(rig):
    misspelt = {f"temperature{i}" + "x" * i: 1 for i in range(1000)}
    value = rig.chat(**misspelt, **{"temperature" * 100_000: 1}).headers[HEADER.lower()]
    assert len(value.split(", ")) <= MAX_REPORTED
    assert len(value) < 2 * MAX_REPORTED * (MAX_NAME_CHARS + len(";nearest=, "))


def counted(rig, handler: str) -> float:
    families = text_string_to_metric_families(rig.get("/metrics").body.decode())
    samples = [sample for family in families for sample in family.samples]
    return sum(
        sample.value
        for sample in samples
        if sample.name == "braid:ignored_request_fields_total" and sample.labels == {"handler": handler}
    )


def test_they_are_counted_by_path(few_metrics, rig):
    before = counted(rig, CHAT), counted(rig, "/v3/chat/completions")
    rig.chat(one=1, two=2, temperature=1, messages=[{**USER, "one": 1}, {**USER, "three": 1}])
    rig.chat(temperature=1)
    assert counted(rig, CHAT) == before[0] + 3  # each name once
    assert counted(rig, "/v3/chat/completions") == before[1]


def test_each_name_is_logged_once(rig, caplog, monkeypatch):
    monkeypatch.setattr(unknown_fields, "_logged", set())
    with caplog.at_level(logging.DEBUG, "braid.server"):
        for _ in range(2):
            rig.chat(never_seen=1, **{"evil\nline": 1})
    logged = [record.getMessage() for record in caplog.records if "unknown request field" in record.message]
    assert logged == [f"the unknown request field {name} is ignored" for name in ("never_seen", "evil?line")]


def test_names_that_are_logged_are_bounded(rig, caplog, monkeypatch):
    monkeypatch.setattr(unknown_fields, "_logged", set())
    monkeypatch.setattr(unknown_fields, "MAX_LOGGED", 3)
    with caplog.at_level(logging.DEBUG, "braid.server"):
        rig.chat(**{f"made_up_{i}": 1 for i in range(10)})
    assert sum("unknown request field" in record.getMessage() for record in caplog.records) == 3
