import copy

import pytest

from pipelines.nodes.text.templates.chat_messages import MessageForms, conform
from pipelines.nodes.text.templates.system_messages import SystemForms

PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


def one(message, content="string", **forms):
    (out,) = conform([message], MessageForms({"user": content, "system": content}, **forms))
    return out


@pytest.mark.parametrize(
    ("content", "content_format", "conformed"),
    [
        ("a", "string", "a"),
        (PARTS, "string", "a\nb"),
        (None, "string", ""),
        ("a", "openai", [{"type": "text", "text": "a"}]),
        (PARTS, "openai", PARTS),
        (None, "openai", []),
        ("a", "both", "a"),
        (PARTS, "both", PARTS),
        (None, "both", ""),
    ],
)
def test_content_has_the_form_that_its_role_takes(content, content_format, conformed):
    assert one({"role": "user", "content": content}, content_format)["content"] == conformed


@pytest.mark.parametrize(("knows", "role"), [(True, "developer"), (False, "system")])
def test_a_developer_is_the_system_where_the_template_knows_none(knows, role):
    known = frozenset({"system", "developer"} if knows else {"system"})
    systems = SystemForms(known, known)
    assert one({"role": "developer", "content": "x"}, systems=systems)["role"] == role


@pytest.mark.parametrize(
    ("written", "read"),
    [('{"a": 1}', {"a": 1}), ("", {}), ("[1]", "[1]"), ("no json", "no json"), ({"a": 1}, {"a": 1})],
)
def test_arguments_of_calls_are_objects_where_they_can_be(written, read):
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"name": "f", "arguments": written}}],
    }
    assert one(message)["tool_calls"][0]["function"] == {"name": "f", "arguments": read}


@pytest.mark.parametrize(
    ("content_format", "joined"),
    [("string", "a\n\na\nb"), ("openai", [{"type": "text", "text": "a\n\na\nb"}])],
)
def test_a_developer_s_message_at_the_start_joins_the_system_s(content_format, joined):
    messages = [
        {"role": "system", "content": "a"},
        {"role": "developer", "content": PARTS},
        {"role": "user", "content": "c"},
        {"role": "system", "content": "later"},
    ]
    out = conform(messages, MessageForms({"system": content_format}))
    assert [message["role"] for message in out] == ["system", "user", "system"]
    assert out[0]["content"] == joined


def test_system_messages_stay_where_they_are_without_a_developer_s():
    messages = [{"role": role, "content": "x"} for role in ("system", "system", "user", "system")]
    assert conform(messages, MessageForms()) == messages


def test_the_request_s_messages_stay_as_they_were():
    messages = [
        {"role": "system", "content": PARTS},
        {"role": "developer", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
    ]
    before = copy.deepcopy(messages)
    conform(messages, MessageForms({"system": "openai"}, arguments_as_text=True, without_content=None))
    assert messages == before


@pytest.mark.parametrize("arguments", ['{"a": "é"}', {"a": "é"}])
def test_arguments_of_calls_are_text_where_the_template_takes_that(arguments):
    message = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}
    (call,) = one(message, arguments_as_text=True)["tool_calls"]
    assert call == {"function": {"name": "f", "arguments": '{"a": "é"}'}}


@pytest.mark.parametrize("given", [None, ""])
@pytest.mark.parametrize("taken", [None, ""])
def test_calls_alone_have_the_content_that_the_template_takes(given, taken):
    message = {"role": "assistant", "content": given, "tool_calls": [{"function": {"name": "f"}}]}
    assert one(message, without_content=taken) == {**message, "content": taken}


@pytest.mark.parametrize(
    ("content", "calls", "has_thinking"),
    [("x", [], True), ("", [{"function": {"name": "f"}}], True), ("x", [{"function": {"name": "f"}}], False)],
)
def test_reasoning_as_thinking(content, calls, has_thinking):
    message = {"role": "assistant", "content": content, "reasoning": "why", "tool_calls": calls}
    assert (one(message, reads_thinking=True).get("thinking") == "why") is has_thinking
    assert "thinking" not in one(message)
