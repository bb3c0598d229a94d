"""Tools of Anthropic's by their types: those that the client runs, and those of servers, whose calls a history has."""

from __future__ import annotations

import re
import typing

import pytest
from every_case import every_case
from messages_bodies import CALL, RESULT, WEATHER, assistant, body, text, user

from pipelines.base.errors import RequestError
from pipelines.grammars.grammar_text import grammar_of_format
from pipelines.requests.fields.unknown_fields import collect_unknown, unknown_fields
from server.apis.messages.blocks import BY_ROLE, MEDIA
from server.apis.messages.request import MessagesRequest
from server.apis.messages.unsupported_fields import LEFT_OUT


def asked(**more):
    return MessagesRequest.model_validate(body(**more)).chat().generation(512)


def refusal(**more):
    with pytest.raises(RequestError) as caught:
        asked(**more)
    return caught.value


EDITS = {"view", "create", "str_replace", "insert"}
CLIENTS = [
    ("bash_20241022", "bash", {"command", "restart"}, None),
    ("bash_20250124", "bash", {"command", "restart"}, None),
    *(
        (
            f"text_editor_{date}",
            "str_replace_editor",
            {"path", "new_str", "insert_line"},
            EDITS | {"undo_edit"},
        )
        for date in ("20241022", "20250124")
    ),
    *(
        (f"text_editor_{date}", "str_replace_based_edit_tool", {"path", "old_str", "insert_text"}, EDITS)
        for date in ("20250429", "20250728", "20280101")
    ),
    (
        "memory_20250818",
        "memory",
        {"path", "old_path", "new_path", "insert_text"},
        EDITS | {"delete", "rename"},
    ),
]


@every_case(("kind", "name", "fields", "commands"), CLIENTS)
def test_a_tool_that_the_client_runs_has_its_published_inputs(kind, name, fields, commands):
    collect_unknown(strict=True)
    declared = {"type": kind, "name": name, "cache_control": None, "strict": True, "max_characters": 100}
    for choice in ({"type": "tool", "name": name}, {"type": "any"}):
        generation = asked(tools=[declared], tool_choice=choice)
        function = generation.tools[0]["function"]
        schema = function["parameters"]
        assert (function["name"], function["strict"], generation.parse_tools) == (name, True, True)
        assert function["description"]
        assert fields <= schema["properties"].keys()
        assert set(schema["properties"]["command"].get("enum", ())) == (commands or set())
        assert schema.get("required", []) == ([] if commands is None else ["command", *_path(name)])
        assert_grammar(schema)
    assert len(asked(tools=[declared, WEATHER]).tools) == 2
    assert unknown_fields().header == ""


def _path(name):
    return [] if name == "memory" else ["path"]


def assert_grammar(schema):
    form = {"type": "json_schema", "json_schema": schema}
    assert grammar_of_format(form, "tools")


SERVERS = (
    "web_search_20250305 web_fetch_20260318 code_execution_20260521 tool_search_tool_bm25_20251119 "
    "advisor_20260301 mcp_toolset"
)
SCREENS = "computer_20241022 computer_20251124 computer_toolset_20260801 browser_toolset_20260801"


@every_case("kind", [*SERVERS.split(), *SCREENS.split()])
def test_other_tools_of_anthropics_are_refused_with_a_true_reason(kind):
    tool = {"type": kind} if "toolset" in kind else {"type": kind, "name": "x"}
    error = refusal(tools=[tool])
    assert error.field == "tools.0.type"
    assert ("run on Anthropic's servers" in error.message) == (kind in SERVERS.split())
    if kind in SCREENS.split():
        assert refusal(tools=[WEATHER, tool]).field == "tools.1.type"
        return
    collect_unknown(strict=False)
    assert len(asked(tools=[WEATHER, tool]).tools) == 1
    assert unknown_fields().header == f"tools;type={kind}"


def test_every_type_of_a_tool_of_the_official_client_is_known():
    from anthropic.types.beta import BetaToolUnionParam

    tried = {*SERVERS.split(), *SCREENS.split(), *(kind for kind, *_ in CLIENTS)}
    kinds = {kind for kind in kinds_of(BetaToolUnionParam) if isinstance(kind, str)}
    assert families(kinds) - families(tried) == {"tool_search_tool_regex"}


def families(kinds):
    return {re.split(r"_\d", kind)[0] for kind in kinds}


CALLED = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "Oslo"}}
BY_A_SERVER = [
    [CALLED, {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}],
    [
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "encrypted_content": "x", "title": "t", "url": "u"}]},
        {"type": "web_search_tool_result", "tool_use_id": "s2", "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}},
    ],
    [{"type": "web_fetch_tool_result", "tool_use_id": "s1", "content": {"type": "web_fetch_result", "url": "u", "content": {"type": "document", "source": {}}}}],
    [{"type": "code_execution_tool_result", "tool_use_id": "s1", "content": {"type": "code_execution_result", "stdout": "1", "content": []}}],
    [{"type": "bash_code_execution_tool_result", "tool_use_id": "s1", "content": {"stdout": "1"}}],
    [{"type": "text_editor_code_execution_tool_result", "tool_use_id": "s1", "content": {}}],
    [{"type": "tool_search_tool_result", "tool_use_id": "s1", "content": {"tool_references": []}}],
    [{"type": "advisor_tool_result", "tool_use_id": "s1", "content": {}}],
    [
        {"type": "mcp_tool_use", "id": "m1", "name": "f", "server_name": "s", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": False, "content": "4 degrees"},
        {"type": "mcp_tool_listing", "mcp_server_name": "s", "tools": [{"name": 5}]},
    ],
    [{"type": "fallback", "from": "a", "to": "b", "trigger": {"type": "refusal"}}],
    [{"type": "server_tool_use", "id": 5, "input": "x", "text": 7}],
]  # fmt: skip


@every_case("blocks", BY_A_SERVER)
def test_calls_that_a_server_ran_are_left_out_of_a_history(blocks):
    collect_unknown(strict=False)
    _, said, more = asked(
        messages=[user("a"), assistant([text("b"), *blocks, text("c")]), user("d")]
    ).messages
    assert said == {"role": "assistant", "content": [text("b"), text("c")]}
    assert more["content"] == "d"
    left = dict.fromkeys(f"messages;type={block['type']}" for block in blocks)
    assert unknown_fields().header == ", ".join(left)


def test_such_blocks_have_no_place_elsewhere_and_end_no_conversation():
    assert refusal(messages=[user([CALLED])]).field == "messages.0.content.0.type"
    inside = {**RESULT, "content": [CALLED]}
    error = refusal(messages=[user("a"), assistant([CALL]), user([inside])])
    assert error.field == "messages.2.content.0.content.0.type"
    assert refusal(messages=[user("a"), assistant([CALLED])]).field == "messages.1"
    assert asked(messages=[user("a"), assistant([text("b"), CALLED])]).continue_final_message


def test_every_kind_of_block_of_the_official_client_is_known():
    """Blocks of the preview that change the tools of a conversation, or compact it, are refused."""
    from anthropic.types.beta import BetaContentBlockParam

    known = {*MEDIA, *LEFT_OUT, *(kind for kinds in BY_ROLE.values() for kind in kinds)}
    assert set(kinds_of(BetaContentBlockParam)) - known == {"compaction", "tool_addition", "tool_removal"}


def kinds_of(union):
    """The `type` of each typed dictionary and model of a union."""
    for member in typing.get_args(union):
        if hasattr(member, "__required_keys__"):
            yield from typing.get_args(typing.get_type_hints(member)["type"])
        elif hasattr(member, "model_fields"):
            yield from typing.get_args(member.model_fields["type"].annotation)
        else:
            yield from kinds_of(member)
