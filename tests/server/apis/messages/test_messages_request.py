"""Bodies of messages → what the pipeline is asked, or a refusal that names the field."""

from __future__ import annotations

import typing

import pytest
from messages_bodies import CALL, RESULT, WEATHER, assistant, body, text, user
from one_test import in_one_test

from pipelines.base.errors import RequestError
from server.apis.messages import unsupported_fields
from server.apis.messages.blocks import BY_ROLE, MEDIA
from server.apis.messages.request import CountRequest, MessagesRequest
from server.apis.messages.tools import ToolDeclaration

MAX_CONTEXT = 512


def asked(**more):
    return MessagesRequest.model_validate(body(**more)).chat().generation(MAX_CONTEXT)


def refusal(**more):
    with pytest.raises(RequestError) as caught:
        asked(**more)
    assert caught.value.field is not None
    return caught.value


def turns(*messages, **more):
    return asked(messages=list(messages), **more).messages


def test_a_string_is_a_users_message():
    assert turns(user("hi")) == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("system", ["Be brief.", [text("Be brief.")]], ids=["text", "block"])
def test_the_system_prompt_comes_first(system):
    assert turns(user("hi"), system=system)[0] == {"role": "system", "content": "Be brief."}


def test_a_clients_accounting_is_not_told_to_the_model():
    accounting = text("x-anthropic-billing-header: cc_version=1; cch=4f2a1;")
    assert turns(user("hi"), system=[accounting, text("Be brief.")])[0]["content"] == "Be brief."
    assert [turn["role"] for turn in turns(user("hi"), system=[accounting])] == ["user"]


def test_several_blocks_stay_parts():
    (message,) = turns(user([text("a"), text("b")]))
    assert message["content"] == [text("a"), text("b")]


def test_neighbours_of_one_role_are_one_turn():
    assert [turn["content"] for turn in turns(user("a"), user("b"))] == [[text("a"), text("b")]]


def test_a_system_message_may_stand_in_the_middle():
    roles = [turn["role"] for turn in turns(user("a"), {"role": "system", "content": "b"}, user("c"))]
    assert roles == ["user", "system", "user"]


def test_a_call_and_its_result():
    _, said, result, more = turns(
        user("Weather?"), assistant([text("I look."), CALL]), user([RESULT, text("And tomorrow?")])
    )
    function = {"name": "get_weather", "arguments": {"city": "Oslo"}}
    assert said["content"] == "I look."
    assert said["tool_calls"] == [{"type": "function", "function": function, "id": "t1"}]
    assert result["role"] == "tool"
    assert (result["content"], result["tool_call_id"], result["name"]) == ("4 degrees", "t1", "get_weather")
    assert more == {"role": "user", "content": "And tomorrow?"}


def test_a_result_may_be_blocks():
    *_, result = turns(user("a"), assistant([CALL]), user([{**RESULT, "content": [text("4 degrees")]}]))
    assert result["content"] == "4 degrees"


def test_earlier_thinking_reaches_the_template():
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
    _, said, _ = turns(user("a"), assistant([thinking, text("b")]), user("c"))
    assert said["reasoning_content"] == "Hm."


def test_redacted_thinking_is_skipped():
    _, said, _ = turns(
        user("a"), assistant([{"type": "redacted_thinking", "data": "?"}, text("b")]), user("c")
    )
    assert said["content"] == "b"


def test_a_last_message_of_the_assistant_is_gone_on_with():
    generation = asked(messages=[user("a"), assistant("The answer is")])
    assert generation.continue_final_message
    assert not generation.add_generation_prompt


@in_one_test(
    "final",
    [
        [CALL],
        [text("Let me look."), CALL],
        [{"type": "thinking", "thinking": "Hm", "signature": ""}],
        [],
        "",
        "  ",
        "Let me look.",
        [{"type": "thinking", "thinking": "Hm", "signature": ""}, text("So")],
    ],
)
@in_one_test("before", [[user("a")], [user("a"), assistant("b"), user([text("c")])]])
def test_any_part_of_a_conversation_is_counted(before, final):
    """Clients that cut conversations count each part; no reply goes on with it."""
    request = CountRequest.model_validate({"model": "tiny", "messages": [*before, assistant(final)]})
    generation = request.chat().generation(MAX_CONTEXT)
    assert len(generation.messages) == len(before) + 1
    assert not generation.add_generation_prompt


@pytest.mark.parametrize("final", [[CALL], "", "  "], ids=["a call", "nothing", "blank"])
def test_what_cannot_be_gone_on_with_is_refused(final):
    assert refusal(messages=[user("a"), assistant(final)]).field == "messages.1"


def test_a_declared_tool_reaches_the_template():
    generation = asked(tools=[{**WEATHER, "strict": True}])
    (tool,) = generation.tools
    assert tool["function"] == {
        "name": "get_weather",
        "description": WEATHER["description"],
        "strict": True,
        "parameters": WEATHER["input_schema"],
    }
    assert generation.parse_tools


@pytest.mark.parametrize(
    ("choice", "forced", "parses"),
    [
        ({"type": "auto"}, None, True),
        ({"type": "any"}, "required", True),
        ({"type": "tool", "name": "get_weather"}, "get_weather", True),
        ({"type": "none"}, None, False),
    ],
    ids=["auto", "any", "tool", "none"],
)
def test_a_tool_choice(choice, forced, parses):
    generation = asked(tools=[WEATHER], tool_choice=choice)
    assert (generation.tool_choice, generation.parse_tools) == (forced, parses)


def test_parallel_calls_may_be_switched_off():
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    assert not asked(tools=[WEATHER], tool_choice=choice).parallel_calls


def test_a_choice_of_an_undeclared_tool_is_refused():
    choice = {"type": "tool", "name": "get_wether"}
    assert refusal(tools=[WEATHER], tool_choice=choice).field == "tool_choice.name"


def test_a_choice_without_tools_is_refused():
    assert refusal(tool_choice={"type": "any"}).field == "tool_choice"


def test_a_tool_that_a_server_would_run_is_refused():
    error = refusal(tools=[{"type": "web_search_20250305", "name": "web_search"}])
    assert error.field == "tools.0.type"
    assert "web_search_20250305" in error.message


def test_a_tool_without_a_schema_is_refused():
    assert refusal(tools=[{"name": "f"}]).field == "tools.0.input_schema"
    assert asked(tools=[{"name": "f", "input_schema": {}}]).tools[0]["function"]["parameters"] == {}
    assert refusal(tools=[{"input_schema": {}}]).field == "tools.0.name"
    assert refusal(tools=[{"type": "bash_20250124"}]).field == "tools.0.name"


@pytest.mark.parametrize(
    ("thinking", "thinks"),
    [({"type": "adaptive"}, True), ({"type": "disabled"}, False)],
    ids=["adaptive", "disabled"],
)
def test_thinking_is_told_to_the_template(thinking, thinks):
    kwargs = asked(thinking=thinking).template_kwargs
    assert kwargs["enable_thinking"] is thinks


def test_a_thinking_budget_bounds_the_reasoning():
    generation = asked(thinking={"type": "enabled", "budget_tokens": 16})
    assert generation.thinking_budget == 16
    assert generation.template_kwargs["enable_thinking"]


def test_enabled_thinking_needs_a_budget():
    assert refusal(thinking={"type": "enabled"}).field == "thinking.budget_tokens"


def test_a_budget_must_leave_room_for_the_answer():
    assert refusal(thinking={"type": "enabled", "budget_tokens": 64}).field == "max_tokens"


def test_without_a_word_the_template_decides_about_thinking():
    assert "enable_thinking" not in asked().template_kwargs


def test_an_effort_is_told_to_the_template():
    assert asked(output_config={"effort": "low"}).template_kwargs == {"reasoning_effort": "low"}


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize("field", ["output_config", "output_format"])
def test_a_schema_constrains_the_reply(field):
    format = {"type": "json_schema", "schema": SCHEMA}
    constraint = asked(**{field: {"format": format} if field == "output_config" else format}).constraint
    assert (constraint.kind, constraint.value) == ("json_schema", SCHEMA)


def test_sampling_fields_are_honoured():
    generation = asked(temperature=0.5, top_k=7, top_p=0.9, stop_sequences=["END"])
    assert {name: generation.sampling[name] for name in ("temperature", "top_k", "top_p")} == {
        "temperature": 0.5,
        "top_k": 7,
        "top_p": 0.9,
    }
    assert generation.stop == ["END"]


def test_more_tokens_than_the_context_holds_are_a_bound():
    assert asked(max_tokens=100_000).default_max_tokens == 100_000


@pytest.mark.parametrize("kind", MEDIA)
def test_what_is_not_text_is_refused_where_it_stands(kind):
    assert refusal(messages=[user([text("a"), {"type": kind, "source": {}}])]).field == "messages.0.content.1"


def test_media_in_a_result_are_refused():
    result = {**RESULT, "content": [{"type": "container_upload", "source": {}}]}
    assert (
        refusal(messages=[user("a"), assistant([CALL]), user([result])]).field
        == "messages.2.content.0.content.0"
    )


FOUND = {
    "type": "search_result",
    "source": "https://docs.test/weather",
    "title": "Weather",
    "content": [text("4 degrees."), text("Rain.")],
    "citations": {"enabled": True},
}
SHOWN = text("Title: Weather\nSource: https://docs.test/weather\n4 degrees.\nRain.")


def test_a_search_result_is_text_where_it_stands():
    messages = [
        user([text("a"), FOUND, text("b")]),
        assistant([CALL]),
        user([{**RESULT, "content": [FOUND, FOUND]}]),
    ]
    first, _, result = turns(*messages)
    assert first["content"] == [text("a"), SHOWN, text("b")]
    assert result["content"] == [SHOWN, SHOWN]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"source": None}, "source"),
        ({"source": {"type": "url", "url": "https://docs.test"}}, "source"),
        ({"title": None}, "title"),
        ({"content": None}, "content"),
        ({"content": [{"type": "image", "source": {}}]}, "content.0.type"),
    ],
)
def test_a_search_result_has_its_fields(change, field):
    assert refusal(messages=[user([{**FOUND, **change}])]).field == f"messages.0.content.0.{field}"
    assert refusal(messages=[assistant([FOUND])]).field == "messages.0.content.0.type"


def image(**source):
    return {"type": "image", "source": source}


DOT = image(type="base64", media_type="image/png", data="AAAA")


def test_images_are_shown_in_their_order_and_named_where_the_client_put_them():
    there = image(type="url", url="https://pictures.test/a")
    result = {**RESULT, "content": [text("a"), there]}
    messages = [user("hi"), user([text("b"), DOT]), assistant([CALL]), user([result, DOT, text("c")])]
    generation = asked(messages=messages)
    shown = [part for message in generation.messages for part in message["content"] if isinstance(part, dict)]
    assert [part["type"] for part in shown] == ["text", "text", "image", "text", "image", "image", "text"]
    assert [(input_image.url, input_image.kind, input_image.where) for input_image in generation.images] == [
        ("data:image/png;base64,AAAA", "image", "messages.1.content.1"),
        ("https://pictures.test/a", "image", "messages.3.content.0.content.1"),
        ("data:image/png;base64,AAAA", "image", "messages.3.content.1"),
    ]
    counted = CountRequest.model_validate({"model": "tiny", "messages": messages}).chat()
    assert counted.generation(MAX_CONTEXT).images == counted.images == generation.images


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"type": "image"}, "source"),
        (image(), "source.type"),
        (image(type="file", file_id="f"), "source.type"),
        (image(type=["url"]), "source.type"),
        (image(type="url"), "source.url"),
        (image(type="base64", data="AAAA"), "source.media_type"),
        (image(type="base64", media_type="image/png", data=None), "source.data"),
        ({"type": "image", "source": "https://pictures.test/a"}, "source"),
    ],
)
def test_an_image_needs_a_whole_source(block, field):
    assert refusal(messages=[user([block])]).field == f"messages.0.content.0.{field}"
    assert refusal(messages=[assistant([DOT])]).field == "messages.0.content.0.type"


@pytest.mark.parametrize(
    ("role", "kind"), [("user", "tool_use"), ("assistant", "tool_result"), ("user", "x")]
)
def test_a_block_stands_only_where_it_belongs(role, kind):
    assert kind not in BY_ROLE[role]
    assert (
        refusal(messages=[{"role": role, "content": [{"type": kind}]}]).field == "messages.0.content.0.type"
    )


def test_a_block_needs_its_fields():
    call = {"type": "tool_use", "id": "t1", "name": "f"}
    assert refusal(messages=[assistant([call])]).field == "messages.0.content.0.input"


def test_a_field_of_another_kind_of_block_is_ignored():
    (message,) = asked(messages=[user([{**text("a"), "thinking": "b"}])]).messages
    assert message == {"role": "user", "content": "a"}


def test_no_messages_are_refused():
    assert refusal(messages=[]).field == "messages"


@pytest.mark.parametrize("name", unsupported_fields.REFUSED)
def test_a_refused_field_says_why(name):
    assert unsupported_fields.REFUSED[name].reason in refusal(**{name: {"other": 1}}).message
    for neutral in (None, *unsupported_fields.REFUSED[name].neutral):
        asked(**{name: neutral})


@pytest.mark.parametrize("name", unsupported_fields.IGNORED)
def test_an_ignored_field_has_a_reason_and_no_effect(name):
    assert unsupported_fields.IGNORED[name]
    plain, given = asked(), asked(**{name: {"any": "thing"}})
    plain.sampling["seed"] = given.sampling["seed"] = 0
    assert plain == given


@pytest.mark.parametrize("name", unsupported_fields.IGNORED_IN_BLOCKS)
def test_an_ignored_field_of_a_block_has_no_effect(name):
    value = True if name == "is_error" else "x"
    block = {**RESULT, name: value} if name == "is_error" else {**text("a"), name: value}
    plain = RESULT if name == "is_error" else text("a")
    assert turns(user([block])) == turns(user([plain]))


@pytest.mark.parametrize("name", unsupported_fields.REFUSED_IN_TOOLS)
def test_a_refused_field_of_a_tool_says_why(name):
    assert refusal(tools=[{**WEATHER, name: "other"}]).field == f"tools.0.{name}"
    for neutral in unsupported_fields.REFUSED_IN_TOOLS[name].neutral:
        asked(tools=[{**WEATHER, name: neutral}])


@pytest.mark.parametrize("name", unsupported_fields.IGNORED_IN_TOOLS)
def test_an_ignored_field_of_a_tool_has_no_effect(name):
    assert asked(tools=[{**WEATHER, name: True}]).tools == asked(tools=[WEATHER]).tools


def test_every_field_of_the_official_client_is_known():
    from anthropic.types.message_create_params import MessageCreateParamsBase

    known = {*MessagesRequest.model_fields, *unsupported_fields.REFUSED, *unsupported_fields.IGNORED}
    assert set(typing.get_type_hints(MessageCreateParamsBase)) - known == set()


def test_every_field_of_a_tool_of_the_official_client_is_known():
    from anthropic.types import ToolParam

    known = {
        *ToolDeclaration.model_fields,
        *unsupported_fields.REFUSED_IN_TOOLS,
        *unsupported_fields.IGNORED_IN_TOOLS,
    }
    assert set(typing.get_type_hints(ToolParam)) - known == set()


def test_counting_takes_the_same_conversation_without_a_bound():
    request = CountRequest.model_validate({"model": "tiny", "messages": [user("hi")], "tools": [WEATHER]})
    assert request.chat().generation(MAX_CONTEXT).messages == asked().messages
