import copy

import pytest

from pipelines.nodes.text.templates.chat_messages import conform

PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


def one(message, content_format="string", knows_developer=False):
    (out,) = conform([message], content_format, knows_developer)
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
    ],
)
def test_content_has_the_template_s_format(content, content_format, conformed):
    assert one({"role": "user", "content": content}, content_format)["content"] == conformed


@pytest.mark.parametrize(("knows", "role"), [(True, "developer"), (False, "system")])
def test_a_developer_is_the_system_where_the_template_knows_none(knows, role):
    assert one({"role": "developer", "content": "x"}, knows_developer=knows)["role"] == role


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
    [("string", "a\n\na\nb\n\nlater"), ("openai", [{"type": "text", "text": "a\n\na\nb\n\nlater"}])],
)
def test_a_developer_s_messages_join_the_system_s_in_the_first_place(content_format, joined):
    messages = [
        {"role": "system", "content": "a"},
        {"role": "developer", "content": PARTS},
        {"role": "user", "content": "c"},
        {"role": "system", "content": "later"},
    ]
    out = conform(messages, content_format, knows_developer=False)
    assert [message["role"] for message in out] == ["system", "user"]
    assert out[0]["content"] == joined


def test_system_messages_stay_where_they_are_without_a_developer_s():
    messages = [{"role": role, "content": "x"} for role in ("system", "system", "user", "system")]
    assert conform(messages, "string", knows_developer=False) == messages


def test_the_request_s_messages_stay_as_they_were():
    messages = [
        {"role": "system", "content": PARTS},
        {"role": "developer", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
    ]
    before = copy.deepcopy(messages)
    conform(messages, "string", knows_developer=False)
    assert messages == before
