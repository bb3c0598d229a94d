"""Messages and tools: what the chat template gets to read, and what is refused before it."""

from __future__ import annotations

import pytest
from one_test import in_one_test

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def rendered(rig, *messages):
    answer = rig.chat(messages=list(messages))
    assert answer.status == 200, answer.body
    return rig.pipeline.asked.messages


def refused(rig, *messages):
    answer = rig.chat(messages=list(messages))
    assert answer.status == 400
    return answer.error["param"], answer.error["message"]


@pytest.mark.parametrize(
    "role", ["system", "developer", "user", "assistant", "tool", "custom", "observation"]
)
def test_every_role_is_taken(rig, role):
    assert rendered(rig, {"role": role, "content": "x"}) == [{"role": role, "content": "x"}]


@pytest.mark.parametrize("kind", ["text", "input_text", "output_text"])
def test_text_parts_stay_a_list_of_parts(rig, kind):
    parts = [{"type": kind, "text": "a"}, {"type": "text", "text": "b"}]
    found = rendered(rig, {"role": "user", "content": parts})[0]["content"]
    assert found == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


def test_a_refusal_part_is_text(rig):
    parts = [{"type": "refusal", "refusal": "no"}]
    found = rendered(rig, {"role": "assistant", "content": parts})[0]["content"]
    assert found == [{"type": "text", "text": "no"}]


def test_an_assistant_may_have_said_nothing(rig):
    assert rendered(rig, {"role": "assistant", "content": None})[0]["content"] == ""
    assert rendered(rig, {"role": "assistant"})[0]["content"] == ""


def test_an_earlier_refusal_is_its_content(rig):
    message = {"role": "assistant", "content": None, "refusal": "no"}
    assert rendered(rig, message)[0]["content"] == "no"


@pytest.mark.parametrize("message", [{"content": None}, {}])
def test_a_result_may_be_nothing(rig, message):
    result = {"role": "tool", "tool_call_id": "a", **message}
    assert rendered(rig, result)[0]["content"] == ""


THOUGHT = {"type": "thinking", "thinking": "It is north.", "signature": "x"}


@pytest.mark.parametrize("thinking", ["It is north.", [{"type": "text", "text": "It is north."}]])
def test_parts_of_reasoning_are_the_reasoning_of_an_assistant(rig, thinking):
    parts = [{**THOUGHT, "thinking": thinking}, {"type": "text", "text": "Cold"}]
    found = rendered(rig, {"role": "assistant", "content": parts})[0]
    assert (found["reasoning"], found["reasoning_content"]) == ("It is north.", "It is north.")
    assert found["content"] == [{"type": "text", "text": "Cold"}]
    named = rendered(rig, {"role": "assistant", "content": parts, "reasoning": "South."})[0]
    assert named["reasoning"] == "South."
    assert rendered(rig, {"role": "assistant", "content": [parts[0]]})[0]["content"] == ""


def test_only_an_assistant_reasons(rig):
    param, text = refused(rig, {"role": "user", "content": [THOUGHT]})
    assert param == "messages.0.content.0.type"
    assert "in assistant messages thinking" in text


@pytest.mark.parametrize("role", ["user", "system"])
def test_others_must_say_something(rig, role):
    for message in ({"role": role, "content": None}, {"role": role}):
        param, text = refused(rig, message)
        assert param == "messages.0.content"
        assert role in text


def test_parts_may_be_strings(rig):
    found = rendered(rig, {"role": "user", "content": ["a", {"type": "text", "text": "b"}]})[0]["content"]
    assert found == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("image_url", ""),
        ("input_audio", ""),
        ("video_url", ""),
        ("file", ".file.file_data"),
    ],  # files are read
)
def test_media_is_refused_by_its_name_and_place(rig, kind, place):
    parts = [{"type": "text", "text": "a"}, {"type": kind, kind: {"url": "x", "data": "x"}}]
    param, message = refused(rig, {"role": "user", "content": parts})
    assert param == f"messages.0.content.1{place}"
    assert kind in message


def test_an_unknown_part_is_refused_with_what_is_allowed(rig):
    param, message = refused(rig, {"role": "user", "content": [{"type": "weird"}]})
    assert param == "messages.0.content.0.type"
    assert "input_text" in message


def test_a_part_without_its_text_is_refused(rig):
    assert refused(rig, {"role": "user", "content": [{"type": "text"}]})[0] == "messages.0.content.0.text"


def test_a_part_must_be_an_object(rig):
    assert refused(rig, {"role": "user", "content": [5]})[0] == "messages.0.content.0"


def test_a_missing_role_is_named(rig):
    assert refused(rig, {"content": "x"}) == ("messages.0.role", "`messages.0.role` is required")


def test_a_reply_of_ours_may_be_sent_back_as_it_is(rig):
    reply = rig.chat().json["choices"][0]["message"]
    assert rendered(rig, reply)[0]["content"] == "Hello"


def test_arguments_reach_the_template_as_an_object(rig):
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    found = rendered(rig, message, {"role": "tool", "tool_call_id": "c", "content": "2"})
    assert found[0]["tool_calls"] == [
        {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}, "id": "c"}
    ]
    assert found[1]["tool_call_id"] == "c"


@pytest.mark.parametrize("arguments", ["[1]", "5", "Paris", '{"a": 1} or so'])
def test_arguments_that_are_no_object_stay_text(rig, arguments):
    call = {"function": {"name": "f", "arguments": arguments}}
    found = rendered(rig, {"role": "assistant", "tool_calls": [call]})
    assert found[0]["tool_calls"][0]["function"]["arguments"] == arguments


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ("{", {}),
        ('{"city": "', {"city": ""}),
        ('{"note": "missing end', {"note": "missing end"}),
        ('{"s": "\\ud83d", "\\ud83d\\ude00": "\\ud83d\\ude00"}', {"s": "\ufffd", "\U0001f600": "\U0001f600"}),
    ],
)
def test_arguments_of_a_stream_that_was_left_are_an_object(rig, arguments, value):
    call = {"function": {"name": "f", "arguments": arguments}}
    found = rendered(rig, {"role": "assistant", "tool_calls": [call]})
    assert found[0]["tool_calls"][0]["function"]["arguments"] == value


def test_missing_arguments_are_none_at_all(rig):
    found = rendered(rig, {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]})
    assert found[0]["tool_calls"][0]["function"]["arguments"] == {}


def test_arguments_of_another_type_are_refused(rig):
    param, _ = refused(
        rig, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 5}}]}
    )
    assert param == "messages.0.tool_calls.0.function.arguments"


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_read_under_both_names(rig, name):
    found = rendered(rig, {"role": "assistant", "content": "x", name: "hm"})[0]
    assert (found["reasoning"], found["reasoning_content"]) == ("hm", "hm")


def test_tools_reach_the_template_unchanged(rig):
    tool = {"type": "function", "function": {"name": "f", "strict": True, "returns": {"type": "string"}}}
    rig.chat(tools=[tool])
    assert rig.pipeline.asked.tools == [tool]
    assert rig.pipeline.asked.parse_tools is True


def test_with_choice_none_tools_are_shown_but_calls_not_read(rig):
    rig.chat(tools=[TOOL], tool_choice="none")
    assert rig.pipeline.asked.tools == [TOOL]
    assert rig.pipeline.asked.parse_tools is False


def test_tools_may_be_written_flat(rig):
    rig.chat(tools=[{"type": "function", "name": "f", "parameters": {"type": "object"}}])
    assert rig.pipeline.asked.tools == [TOOL]


FORCED_F = {"type": "function", "function": {"name": "f"}}


def allowed(mode, *names):
    """OpenAI's choice of some of the tools, in the shape of chat/completions."""
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


FORCED = [
    ("auto", None),
    ("none", None),
    (None, None),
    ("required", "required"),
    ({"type": "function", "function": {"name": "f"}}, "f"),
    ({"type": "function", "name": "f"}, "f"),
    ("any", "required"),
    (allowed("auto", "f"), None),
    (allowed("required", "f"), "required"),
    ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}, "required"),
]


@pytest.mark.parametrize(("choice", "forced"), FORCED)
def test_a_choice_of_tools_reaches_the_pipeline(rig, choice, forced):
    assert rig.chat(tools=[TOOL], tool_choice=choice).status == 200
    assert rig.pipeline.asked.tool_choice == forced


def test_only_allowed_tools_are_shown(rig):
    other = {"type": "function", "function": {"name": "g"}}
    rig.chat(tools=[TOOL, other], tool_choice=allowed("auto", "g"))
    assert [tool["function"]["name"] for tool in rig.pipeline.asked.tools] == ["g"]


def test_without_tools_none_is_the_only_choice(rig):
    assert rig.chat(tool_choice="none").status == 200
    assert rig.pipeline.asked.parse_tools is False


@pytest.mark.parametrize("choice", ["required", FORCED_F, allowed("required", "f")])
def test_a_forced_call_follows_its_schema_and_not_that_of_the_text(rig, choice):
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    assert rig.chat(tools=[TOOL], tool_choice=choice, response_format=schema).status == 200
    assert rig.pipeline.asked.tool_choice is not None
    assert rig.pipeline.asked.constraint is None


def test_text_follows_its_schema_where_a_call_is_optional(rig):
    rig.chat(tools=[TOOL], tool_choice="auto", response_format={"type": "json_object"})
    assert rig.pipeline.asked.constraint.kind == "json"


def test_a_bad_text_format_is_refused_beside_a_forced_call(rig):
    answer = rig.chat(tools=[TOOL], tool_choice="required", response_format={"type": "xml"})
    assert answer.error["param"] == "response_format.type"


def test_one_call_at_a_time_reaches_the_pipeline(rig):
    rig.chat(tools=[TOOL], parallel_tool_calls=False)
    assert rig.pipeline.asked.parallel_calls is False


BAD_TOOLS = [
    ({"tools": []}, "tools", "must not be an empty array"),
    ({"tools": {}}, "tools", "must be a list"),
    ({"tools": [{"type": "web_search", "function": {"name": "f"}}]}, "tools.0.type", "'function'"),
    ({"tools": [{"type": "function"}]}, "tools.0.function", "is required"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools.0.function.name", "is required"),
    ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools.0.function.name", "at least 1"),
    (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]},
        "tools.0.function.parameters",
        "must be an object",
    ),
    ({"tool_choice": "auto"}, "tool_choice", "`tools` must be set"),
    ({"tools": [TOOL], "tool_choice": "foo"}, "tool_choice", '"none", "auto" or "required"'),
    ({"tools": [TOOL], "tool_choice": 5}, "tool_choice", "Invalid value for `tool_choice`"),
    ({"tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice.function", "Correct usage"),
    (
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {}}},
        "tool_choice.function.name",
        "Expected field `name`",
    ),
    (
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
        "tool_choice",
        "does not match any of the specified `tools`",
    ),
    (
        {"tools": [TOOL], "tool_choice": FORCED_F, "structured_outputs": {"choice": ["a"]}},
        "tool_choice",
        "You can only either use constraints for structured outputs or tools, not both.",
    ),
    (
        {"tools": [TOOL], "tool_choice": allowed("auto", "g")},
        "tool_choice.allowed_tools.tools.0",
        "not found in 'tools'",
    ),
    (
        {"tools": [TOOL], "tool_choice": allowed("any", "f")},
        "tool_choice.allowed_tools.mode",
        "auto or required",
    ),
    ({"tools": [TOOL], "tool_choice": allowed("auto")}, "tool_choice.allowed_tools.tools", "a list of tools"),
]


@in_one_test("fields, param, message", BAD_TOOLS)
def test_bad_tools_are_named(rig, fields, param, message):
    answer = rig.chat(**fields)
    assert answer.status == 400
    assert (answer.error["param"], message in answer.error["message"]) == (param, True)


@pytest.mark.parametrize(
    ("effort", "thinking"), [("none", False), ("minimal", True), ("high", True), ("max", True)]
)
def test_effort_switches_thinking(rig, effort, thinking):
    rig.chat(reasoning_effort=effort)
    expected = {"enable_thinking": thinking, "reasoning_effort": effort}
    assert rig.pipeline.asked.template_kwargs == expected


def test_template_kwargs_count_more_than_effort(rig):
    rig.chat(reasoning_effort="high", chat_template_kwargs={"enable_thinking": False, "x": 1})
    assert rig.pipeline.asked.template_kwargs["enable_thinking"] is False
    assert rig.pipeline.asked.template_kwargs["x"] == 1


def test_documents_reach_the_template(rig):
    rig.chat(documents=[{"title": "t", "text": "x"}])
    assert rig.pipeline.asked.template_kwargs == {"documents": [{"title": "t", "text": "x"}]}
