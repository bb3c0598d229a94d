"""What parse_reply asks of the text before it and of guides, and hands to its parsers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipelines.base.errors import RequestError
from pipelines.nodes.generation.output_guide import check_guidable, grammar_writer, guide_spec
from pipelines.nodes.text.parsers.tools.forms import NO_PARAMETERS
from pipelines.nodes.text.replies.parse_reply import ParseReply
from pipelines.nodes.text.tokenizing.tokenizer import open_tokenizer
from pipelines.values.node_values import Tokens
from pipelines.values.reply_values import TextUpdate
from pipelines.values.stream_values import Stream, StreamChoice
from pipelines.values.tasks import Constraint, GenerationInput
from pipelines.wire.sampling_params import GuideSpec, SamplingParams, Thinking
from pipelines.wire.token_piece import TokenPiece

TOKENIZER = Path(__file__).parents[5] / "model_repo" / "braid-demo" / "model" / "tokenizer.json"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"zip": {"type": "string"}, "days": {"type": "integer"}},
        },
    },
}
CLOSED_WEATHER = {**WEATHER["function"]["parameters"], "additionalProperties": False}
TIME = {"type": "function", "function": {"name": "get_time"}}
CALL = (
    "<tool_call>\n<function=get_weather>\n<parameter=zip>\n0150\n</parameter>\n"
    "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
)
JSON_CALL = '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
USER = [{"role": "user", "content": "?"}]


def machine(settings, request, prompt_text="", reply_text=""):
    """The stage that the node makes for a prompt that ends so."""
    call = SimpleNamespace(request=request)
    stream = ParseReply(ParseReply.Config(**settings), Path()).run(call, Stream("engine"))
    prompt = Tokens([1], prompt_text=prompt_text, reply_text=reply_text)
    (make,) = stream.makers
    return make(StreamChoice(0, prompt, 0, SamplingParams()))


def parsed(settings, request, text="", prompt_text="", finish="stop"):
    """What the node makes of a whole text."""
    return machine(settings, request, prompt_text).push(TextUpdate(TokenPiece([], 1, finish), text, []))


def planned(settings, request):
    return ParseReply(ParseReply.Config(**settings), Path()).plan(request)


def written(form, field):
    """A grammar is its format and the field it is refused by; that of the request is "constraint"."""
    return "constraint" if field == CONSTRAINT.where else (form, field)


def guide(settings, request, prompt_text="", reply_text="", write=written):
    """What the scheduler node sends to the engine of the plan and the prompt."""
    plan = planned(settings, request)
    check_guidable(request, write)
    ParseReply(ParseReply.Config(**settings), Path()).check(request, plan)
    return guide_spec(request, plan, Tokens([1], prompt_text=prompt_text, reply_text=reply_text), write)


def spec(settings, prompt_text="", **fields):
    return guide(settings, GenerationInput(messages=USER, **fields), prompt_text)


@pytest.mark.parametrize(
    ("settings", "fields", "skips"),
    [
        ({"tools": "mistral"}, {"tools": [WEATHER]}, False),
        ({"tools": "mistral"}, {}, True),
        ({"tools": "mistral"}, {"tools": [WEATHER], "parse_tools": False}, True),
        ({"reasoning": "mistral"}, {}, False),
        ({"reasoning": "mistral"}, {"parse_reasoning": False}, True),
        ({"reasoning": "qwen3"}, {}, True),
        ({}, {"tools": [WEATHER]}, True),
    ],
)
def test_text_keeps_special_tokens_where_marks_may_be_some(settings, fields, skips):
    request = GenerationInput(messages=USER, **fields)
    assert planned(settings, request).keep_special_tokens is not skips


def test_parameters_have_the_types_that_the_declared_tools_say():
    reply = parsed({"tools": "qwen3_coder"}, GenerationInput(messages=USER, tools=[WEATHER]), CALL)
    assert [piece.name for piece in reply.tool_calls if piece.name] == ["get_weather"]
    assert "".join(piece.arguments for piece in reply.tool_calls) == '{"zip": "0150", "days": 3}'


@pytest.mark.parametrize(
    ("choice", "text", "finish", "expected"),
    [
        (None, JSON_CALL, "stop", "tool_calls"),
        (None, "no call", "stop", "stop"),
        (None, JSON_CALL[:60], "length", "length"),
        ("required", JSON_CALL, "stop", "tool_calls"),
        ("required", JSON_CALL[:60], "length", "length"),
        ("get_weather", JSON_CALL, "stop", "stop"),
    ],
)
def test_how_a_reply_ends(choice, text, finish, expected):
    request = GenerationInput(messages=USER, tools=[WEATHER], tool_choice=choice)
    assert parsed({"tools": "hermes"}, request, text, finish=finish).piece.finish == expected


def test_one_call_is_kept_where_the_request_wants_no_more():
    request = GenerationInput(messages=USER, tools=[WEATHER], parallel_calls=False)
    reply = parsed({"tools": "hermes"}, request, JSON_CALL * 2)
    assert {piece.index for piece in reply.tool_calls} == {0}


def counted(settings, parts, prompt_text=""):
    pushes = machine(settings, GenerationInput(messages=USER), prompt_text)
    updates = [TextUpdate(TokenPiece([1], 1), part, [part]) for part in parts]
    updates[-1].piece.finish = "stop"
    return [pushes.push(update).num_reasoning for update in updates]


@pytest.mark.parametrize(
    ("prompt_text", "parts", "numbers"),
    [
        ("", ["<think>", "one", " two", "</think>", "three"], [0, 1, 1, 0, 0]),
        ("<think>\n", ["one", "</think>", "three"], [1, 0, 0]),
        ("<think>\n\n</think>\n\n", ["one", "two"], [0, 0]),
        ("<think>\n", ["one", "", "two"], [1, 1, 1]),
        ("<think>\n", ["one", "</th", "ink>"], [1, 1, 0]),
        ("", ["one"], [0]),
    ],
)
def test_tokens_between_the_marks_are_reasoning(prompt_text, parts, numbers):
    assert counted({"reasoning": "qwen3"}, parts, prompt_text) == numbers


def test_tokens_of_one_update_are_counted_one_by_one():
    pushes = machine({"reasoning": "qwen3"}, GenerationInput(messages=USER), "<think>\n")
    parts = ["a", "b", "</think>", "c"]
    update = pushes.push(TextUpdate(TokenPiece([1, 2, 3, 4], 4), "a" + "b</think>c", parts))
    assert (update.num_reasoning, update.reasoning, update.content) == (2, "ab", "c")
    assert update.is_reasoning == [True, True, True, False]


def test_channels_are_counted_too():
    parts = ["<|channel|>", "analysis", "<|message|>", "a", "b", "<|end|>", "<|start|>", "assistant"]
    assert counted({"reasoning": "openai_gptoss"}, parts) == [0, 0, 0, 1, 1, 0, 0, 0]


@pytest.mark.parametrize(
    "fields", [{"parse_reasoning": False}, {"prompts": [], "messages": None, "parse_reasoning": False}]
)
def test_nobody_counts_where_nobody_looks_for_reasoning(fields):
    request = GenerationInput(**{"messages": USER} | fields)
    assert parsed({"reasoning": "qwen3"}, request, "<think>a</think>b").num_reasoning is None


def test_reasoning_is_found_in_replies_to_chats_in_token_ids():
    request = GenerationInput(messages=None)
    assert parsed({"reasoning": "qwen3"}, request, "a</think>b", prompt_text="<think>\n").reasoning == "a"


@pytest.mark.parametrize(
    ("prompt", "begun", "reasoning", "opened"),
    [
        ("<think>\n", "Well", "a", True),
        ("", "<think>Well", "a", True),
        ("<think>\n", "Well.</think>So", "", None),
        ("", "So", "", None),
    ],
)
def test_a_reply_goes_on_where_the_request_began_it(prompt, begun, reasoning, opened):
    request = GenerationInput(messages=USER, constraint=CONSTRAINT)
    update = machine({"reasoning": "qwen3"}, request, prompt, begun).push(
        TextUpdate(TokenPiece([], 1), "a", [])
    )
    assert update.reasoning == reasoning
    thinking = guide({"reasoning": "qwen3"}, request, prompt, begun).thinking
    assert (thinking and thinking.opened) == opened


CONSTRAINT = Constraint("regex", "a+", "structured_outputs.regex")


def test_a_guide_is_told_where_reasoning_ends():
    told = spec({"reasoning": "qwen3"}, "<think>\n", constraint=CONSTRAINT, thinking_budget=7)
    assert told == GuideSpec("constraint", Thinking("<think>", "</think>", opened=True, budget=7))
    assert not spec({"reasoning": "qwen3"}, constraint=CONSTRAINT).thinking.opened
    assert spec({"reasoning": "deepseek_r1"}, constraint=CONSTRAINT).thinking.opened


def test_a_prompt_that_closed_the_reasoning_leaves_none_to_guide():
    assert spec({"reasoning": "qwen3"}, "<think>\n\n</think>\n\n", constraint=CONSTRAINT).thinking is None
    assert spec({"reasoning": "qwen3"}, "<think>\n\n</think>\n\n", thinking_budget=3) is None


@pytest.mark.parametrize("family", ["qwen3_coder", "llama3_json", None])
def test_a_reply_that_nothing_restrains_needs_no_guide(family):
    assert spec({"reasoning": "qwen3", "tools": family}, tools=[WEATHER]) is None
    assert spec({"reasoning": "qwen3", "tools": "hermes"}, tools=[WEATHER], parse_tools=False) is None
    assert spec({"reasoning": "qwen3", "tools": "hermes"}) is None


@pytest.mark.parametrize(
    ("settings", "fields"), [({}, {}), ({"reasoning": "qwen3"}, {"parse_reasoning": False})]
)
def test_a_budget_for_reasoning_that_nobody_looks_for_is_refused(settings, fields):
    with pytest.raises(RequestError) as error:
        spec(settings, thinking_budget=3, **fields)
    assert error.value.field == "thinking_token_budget"


def test_required_calls_are_held_to_the_family_s_form():
    form, field = spec({"tools": "hermes"}, tools=[WEATHER, TIME], tool_choice="required").grammar
    assert field == "tools"
    assert [tag["begin"] for tag in form["tags"]] == [
        '<tool_call>\n{"name": "get_weather", "arguments": ',
        '<tool_call>\n{"name": "get_time", "arguments": ',
    ]
    assert form["tags"][0]["content"]["json_schema"] == CLOSED_WEATHER
    assert form["tags"][1]["content"]["json_schema"]["additionalProperties"] is False
    assert form["at_least_one"]
    assert not form["stop_after_first"]


def test_a_named_tool_is_the_only_one_and_is_called_once():
    form, _ = spec({"tools": "hermes"}, tools=[WEATHER, TIME], tool_choice="get_time").grammar
    assert len(form["tags"]) == 1
    assert form["stop_after_first"]


def test_one_call_only_where_the_request_wants_no_more():
    form, _ = spec({"tools": "hermes"}, tools=[TIME], tool_choice="required", parallel_calls=False).grammar
    assert form["stop_after_first"]


def test_calls_in_free_text_are_held_to_the_declared_tools():
    told = spec({"tools": "hermes", "reasoning": "qwen3"}, tools=[WEATHER, TIME, strict(TIME)])
    assert (told.grammar, told.thinking) == (None, Thinking("<think>", "</think>"))
    assert (told.calls.trigger, told.calls.once) == ("<tool_call>", False)
    form, field = told.calls.grammar
    assert field == "tools"
    for begin, either in zip(("\n", ""), form["elements"], strict=True):
        assert [tag["begin"] for tag in either["tags"]] == [
            f'{begin}{{"name": "{name}", "arguments": ' for name in ("get_weather", "get_time", "get_time")
        ]
        assert [tag["content"]["json_schema"] for tag in either["tags"]] == [
            CLOSED_WEATHER,
            {"type": "object"},
            NO_PARAMETERS,
        ]
    assert spec({"tools": "hermes"}, tools=[TIME], parallel_calls=False).calls.once


def test_a_schema_without_a_grammar_is_held_to_the_rest_unless_it_is_strict():
    """What a request did not demand refuses no request."""
    odd = {"properties": {"öl": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}}}
    tools = [WEATHER, {"type": "function", "function": {"name": "f", "parameters": odd}}]
    write = grammar_writer(open_tokenizer(TOKENIZER))

    def calls(tools):
        request = GenerationInput(messages=USER, tools=tools)
        return guide({"tools": "hermes"}, request, write=write).calls.grammar

    schemas = [grammar["json_schema"] for grammar in json.loads(calls(tools))["grammars"][1:]]
    assert schemas[0]["properties"] == WEATHER["function"]["parameters"]["properties"]
    held = {"öl": {"type": "array", "items": {"type": "integer"}}}
    assert (schemas[1]["properties"], schemas[1]["additionalProperties"]) == (held, False)
    with pytest.raises(RequestError, match="uniqueItems") as error:
        calls([WEATHER, strict(tools[1])])
    assert error.value.field == "tools"


def strict(tool):
    return {**tool, "function": {**tool["function"], "strict": True}}


def test_a_constraint_or_calls():
    form, field = spec({"tools": "hermes"}, tools=[WEATHER], constraint=CONSTRAINT).grammar
    assert [each["type"] for each in form["elements"]] == ["regex", "tags_with_separator"]


@pytest.mark.parametrize(
    ("family", "choice", "text", "calls"),
    [
        (
            "qwen3_coder",
            "required",
            '[{"name": "f", "parameters": {"a": 1}}, {"name": "g", "parameters": {}}]',
            ["f", "g"],
        ),
        ("qwen3_coder", "f", '{"a": 1}', ["f"]),
        ("openai", "f", ' {"a": 1}', ["f"]),
        (None, "required", '[{"name": "f", "parameters": {"a": 1}}]', ["f"]),
    ],
)
def test_families_without_a_form_call_in_plain_json(family, choice, text, calls):
    tools = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]
    request = GenerationInput(messages=USER, tools=tools, tool_choice=choice)
    settings = {"tools": family} if family else {}
    whole = parsed(settings, request, text)
    assert [piece.name for piece in whole.tool_calls if piece.name] == calls
    assert "".join(piece.arguments for piece in whole.tool_calls if piece.index == 0) == '{"a": 1}'
    assert whole.content == ""


def test_a_graph_without_a_grammar_trusts_its_model_to_be_strict():
    request = GenerationInput(messages=USER, tools=[strict(WEATHER)])
    assert guide({"tools": "hermes"}, request, write=None) is None
    assert parsed({"tools": "hermes"}, request, "a").content == "a"


@pytest.mark.parametrize(
    "parts", [["Two", " and", "</think>", "Four"], ["Two", " and", "</", "think>", "Four"]]
)
def test_reasoning_that_began_in_the_prompt_is_counted_when_it_is_closed(parts):
    """Whole replies wait for the marker; a stream has sent the text as content by then."""
    told = {}
    for streams in (False, True):
        stage = machine(
            {"reasoning": "qwen3"}, GenerationInput(messages=USER, streams=streams), "assistant\n"
        )
        updates = [TextUpdate(TokenPiece([1], 1), part, [part]) for part in parts]
        updates[-1].piece.finish = "stop"
        out = [stage.push(update) for update in updates]
        told[streams] = (
            "".join(update.reasoning for update in out),
            "".join(update.content for update in out),
            sum(update.num_reasoning for update in out),
        )
    assert told[False] == ("Two and", "Four", len(parts) - 2)
    assert told[True] == ("", "Two andFour", 0)


def test_a_marker_in_a_constrained_text_is_text():
    said = '{"mark": "</think>"}'
    request = GenerationInput(messages=USER, constraint=CONSTRAINT)
    assert parsed({"reasoning": "qwen3"}, request, said).content == said


def test_a_loose_constraint_is_held_to_what_has_a_grammar_alone_and_beside_tools():
    schema = {"properties": {"a": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}}}
    write = grammar_writer(open_tokenizer(TOKENIZER))
    for tools in ([], [WEATHER]):
        loose = Constraint("json_schema", schema, "response_format", loose=True)
        grammar = guide({"tools": "hermes"}, asked(loose, tools), write=write).grammar
        held = json.loads(grammar)["grammars"][-1 if not tools else 1]["json_schema"]
        assert held["properties"] == {"a": {"type": "array", "items": {"type": "integer"}}}
        strict_one = Constraint("json_schema", schema, "response_format")
        with pytest.raises(RequestError, match="uniqueItems"):
            guide({"tools": "hermes"}, asked(strict_one, tools), write=write)


def asked(constraint, tools):
    return GenerationInput(messages=USER, tools=tools, constraint=constraint)
