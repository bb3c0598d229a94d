"""What a request says reaches the model; what cannot be honoured is refused by its name."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest
from one_test import in_one_test
from openai.types.responses import ResponseInputItemParam
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from responses_bodies import PATH, TOOL, ask, called, thought
from scripted import said as piece

from pipelines.base.errors import RequestError
from pipelines.requests.fields.known_fields import IGNORED as IGNORED_IN_CHAT
from pipelines.values.reply_values import ToolCallPiece
from server.apis.responses import unsupported_fields
from server.apis.responses.chat_messages import READERS
from server.apis.responses.input_items import read_items
from server.apis.responses.item_models import ITEMS, LEFT_OUT
from server.apis.responses.request import ResponseRequest
from server.apis.responses.translate import ChatTranslation, response_format


def told(rig, **more):
    """The messages that the model was given."""
    answer = rig.post(PATH, ask(**more))
    assert answer.status == 200, answer.body
    return rig.pipeline.asked.messages


def refused(rig, **more):
    answer = rig.post(PATH, {"model": "tiny", **more} if "input" in more else ask(**more))
    assert answer.status == 400, answer.body
    return answer.error["param"], answer.error["message"]


def said(role, text, kind="text"):
    return {"role": role, "content": [{"type": kind, "text": text}]}


CONVERSATIONS = {
    "text": ("hi", [said("user", "hi")]),
    "a message without type": ([{"role": "user", "content": "hi"}], [said("user", "hi")]),
    "parts": (
        [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        [said("user", "hi")],
    ),
    "several turns": (
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "yo"},
            {"role": "user", "content": "again"},
        ],
        [said("user", "hi"), said("assistant", "yo"), said("user", "again")],
    ),
    "a system message": (
        [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}],
        [said("system", "be kind"), said("user", "hi")],
    ),
}


def test_a_call_without_a_name_has_the_same_one_in_each_request():
    call = {"type": "function_call", "name": "f", "arguments": "{}"}
    items = [{"role": "user", "content": "hi"}, call, {**call, "id": "fc_1"}, {**call, "call_id": "c"}]
    reads = [read_items(items, lambda *_: {}) for _ in range(2)]
    assert [[item["call_id"] for item in read[1:]] for read in reads] == [["call_1", "fc_1", "c"]] * 2


def test_images_are_named_where_the_client_put_them():
    parts = [
        {"type": "input_text", "text": "what"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto", "file_id": None},
        {"type": "input_image", "image_url": {"url": "https://pictures.test/a"}},
    ]
    output = {"type": "function_call_output", "call_id": "c", "output": parts[1:2]}
    items = read_items(
        [{"role": "user", "content": "hi"}, {"role": "user", "content": parts}, output], lambda *_: {}
    )
    translation = ChatTranslation(ResponseRequest(model="tiny", input=items), [], items)
    generation = translation.generation(512)
    assert [[part["type"] for part in message["content"]] for message in generation.messages[1:]] == [
        ["text", "image", "image"],
        ["image"],
    ]
    assert [(image.url, image.kind) for image in generation.images] == [
        ("data:image/png;base64,AAAA", "input_image"),
        ("https://pictures.test/a", "input_image"),
        ("data:image/png;base64,AAAA", "input_image"),
    ]
    places = [translation.rename(RequestError("x", image.where)).field for image in generation.images]
    assert places == ["input.1.content.1", "input.1.content.2", "input.2.content.0"]
    assert translation.chat.images == generation.images


@pytest.mark.parametrize(("given", "expected"), CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_input_becomes_messages(rig, given, expected):
    assert told(rig, input=given) == expected


def test_instructions_come_first(rig):
    assert told(rig, instructions="be brief")[0] == {"role": "system", "content": "be brief"}


def test_what_the_model_did_in_one_turn_is_one_message(rig):
    turn = [
        {"role": "user", "content": "Weather?"},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "hm"}],
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Wait."}]},
        {"type": "function_call", "call_id": "c0", "name": "f", "arguments": '{"a": 1}', "caller": None},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c0", "output": "sun"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "rain"}]},
    ]
    user, model, first, second = told(rig, input=turn)
    assert model["reasoning"] == "hm"
    assert model["content"] == [{"type": "text", "text": "Wait."}]
    assert [call["id"] for call in model["tool_calls"]] == ["c0", "c1"]
    assert (first["role"], first["tool_call_id"], first["content"]) == ("tool", "c0", "sun")
    assert second["content"] == [{"type": "text", "text": "rain"}]


def test_what_was_answered_may_be_sent_back(rig):
    rig.pipeline.batches = [
        [(0, thought("hm"))],
        [(0, piece("Wait."))],
        [(0, called(ToolCallPiece(0, "{}", "c0", "get_weather"), finish="tool_calls"))],
    ]
    output = rig.post(PATH, ask(tools=[TOOL])).json["output"]
    result = {"type": "function_call_output", "call_id": "c0", "output": "sun"}
    sent = [{"role": "user", "content": "hi"}, *output, result]
    _, model, tool = told(rig, input=sent, tools=[TOOL])
    assert (model["reasoning"], model["content"][0]["text"]) == ("hm", "Wait.")
    assert model["tool_calls"][0]["id"] == tool["tool_call_id"] == "c0"


def test_every_item_of_openais_client_is_read():
    items = [
        get_args(item)[0] if hasattr(item, "__metadata__") else item
        for item in get_args(ResponseInputItemParam)
    ]
    kinds = {
        kind for item in items for kind in get_args(get_type_hints(item)["type"]) if isinstance(kind, str)
    }
    assert kinds - {*ITEMS, *LEFT_OUT, "item_reference"} == set()
    assert set(READERS) == {*ITEMS, *LEFT_OUT}


@in_one_test("kind", LEFT_OUT)
def test_what_other_servers_ran_is_left_out_of_histories(rig, kind):
    old = {"type": kind, "id": "x_1", "status": "completed", "action": {"type": "search", "query": "q"}}
    history = [{"role": "user", "content": "hi"}, reasoned("a"), old, said("assistant", "yo", "output_text")]

    async def scenario(client):
        answer = await client.post(PATH, ask(input=[*history, {"role": "user", "content": "go on"}]))
        return answer, await client.get(f"{PATH}/{answer.json['id']}/input_items")

    answer, stored = rig.run(scenario)
    assert answer.status == 200, answer.body
    assert answer.headers["x-braid-ignored-fields"] == f"input;type={kind}"
    user, model, _ = rig.pipeline.asked.messages
    assert (user["role"], model["reasoning"], model["content"][0]["text"]) == ("user", "a", "yo")
    assert old in stored.json["data"]
    bad = [*history, {"role": "user", "content": [{"type": "input_video"}]}]
    assert rig.post(PATH, ask(input=bad)).error["param"] == "input.4.content.0.type"


def reasoned(*texts, **more):
    return {
        "type": "reasoning",
        "content": [{"type": "reasoning_text", "text": text} for text in texts],
        **more,
    }


SUMMARY = [{"type": "summary_text", "text": "s"}]
CALLED = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}


@in_one_test(
    "items, thoughts",
    [
        ([reasoned("a"), reasoned("b")], ["a\nb"]),
        ([reasoned("a", "b"), reasoned(), reasoned("c")], ["a\nb\nc"]),
        ([reasoned("a"), reasoned(encrypted_content="x", summary=[])], ["a"]),
        ([reasoned("a"), reasoned(summary=SUMMARY)], ["a\ns"]),
        ([reasoned("", summary=SUMMARY)], ["s"]),
        ([reasoned(), CALLED], [None]),
        ([reasoned("a"), CALLED, reasoned("b"), CALLED], ["a", "b"]),
        ([reasoned("a"), said("assistant", "x", "output_text"), reasoned("b")], ["a", "b"]),
        ([reasoned("a"), CALLED, reasoned(encrypted_content="x"), CALLED], ["a"]),
    ],
)
def test_reasoning_in_several_items_is_kept_whole(rig, items, thoughts):
    assert [message.get("reasoning") for message in told(rig, input=items)] == thoughts


def test_a_summary_stands_for_reasoning_that_is_not_there(rig):
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "thought"}]}
    answer = {"role": "assistant", "content": "yes"}
    assert told(rig, input=[item, answer, {"role": "user", "content": "?"}])[0]["reasoning"] == "thought"


def test_sampling_reaches_the_model(rig):
    wanted = {"temperature": 0.5, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "seed": 7, "presence_penalty": 1}
    told(rig, **wanted, max_output_tokens=5, stop=["."])
    asked = rig.pipeline.asked
    assert asked.sampling.items() >= {**wanted, "max_tokens": 5}.items()
    assert asked.stop == ["."]


def test_template_kwargs_and_effort_reach_the_template(rig):
    told(rig, chat_template_kwargs={"a": 1}, reasoning={"effort": "low"})
    assert rig.pipeline.asked.template_kwargs.items() >= {"a": 1, "reasoning_effort": "low"}.items()


@pytest.mark.parametrize("tool", [TOOL, {"type": "function", "function": {"name": "get_weather"}}])
def test_tools_are_flat_or_nested(rig, tool):
    told(rig, tools=[tool])
    assert [one["function"]["name"] for one in rig.pipeline.asked.tools] == ["get_weather"]


CHOICES = [
    (None, None),
    ("auto", None),
    ("required", "required"),
    ({"type": "function", "name": "get_weather"}, "get_weather"),
    (
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "other"}]},
        "required",
    ),
]


@pytest.mark.parametrize(("choice", "forced"), CHOICES)
def test_a_choice_of_tools_reaches_the_model(rig, choice, forced):
    told(rig, tools=[TOOL, {"type": "function", "name": "other"}], tool_choice=choice)
    assert rig.pipeline.asked.tool_choice == forced


def test_only_allowed_tools_are_shown_to_the_model(rig):
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "other"}]}
    reply = rig.post(PATH, ask(tools=[TOOL, {"type": "function", "name": "other"}], tool_choice=choice)).json
    assert [tool["function"]["name"] for tool in rig.pipeline.asked.tools] == ["other"]
    assert reply["tool_choice"] == choice
    assert len(reply["tools"]) == 2


SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}


def test_a_format_constrains_the_text(rig):
    told(rig, text={"format": {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True}})
    constraint = rig.pipeline.asked.constraint
    assert (constraint.kind, constraint.value) == ("json_schema", SCHEMA)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"text": {"format": {"type": "json_object", "schema": SCHEMA}}}, "response_format"),
        ({"json_schema": SCHEMA}, "json_schema"),
    ],
)
def test_a_schema_of_llama_cpps_form_holds(rig, fields, where):
    told(rig, **fields)
    found = rig.pipeline.asked.constraint
    assert (found.kind, found.value, found.where) == ("json_schema", SCHEMA, where)


def test_a_format_keeps_its_name_and_strictness():
    form = {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True, "description": "d"}
    request = ResponseRequest(input="hi", text={"format": form})
    inner = {key: value for key, value in form.items() if key != "type"}
    assert response_format(request) == {"type": "json_schema", "json_schema": inner}


def test_automatic_truncation_cuts_the_prompt_of_a_composed_graph_alone(rig):
    """The lines of a composed graph add to the prompt when it runs; any other conversation is shortened by turns."""
    told(rig, truncation="auto")
    assert rig.pipeline.asked.truncate_prompt_tokens is None
    rig.pipeline.is_composed = True
    told(rig, truncation="auto")
    assert rig.pipeline.asked.truncate_prompt_tokens == -1


def test_logprobs_are_asked_by_include_or_by_their_number(rig):
    told(rig, include=["message.output_text.logprobs"])
    assert rig.pipeline.asked.sampling["logprobs"] == 0
    told(rig, top_logprobs=3)
    assert rig.pipeline.asked.sampling["logprobs"] == 3


def test_the_reply_repeats_what_was_asked(rig):
    fields = {
        "instructions": "be brief",
        "metadata": {"a": "b"},
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 9,
        "max_tool_calls": 3,
        "user": "u",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "truncation": "auto",
        "top_logprobs": 1,
    }
    reply = rig.post(PATH, ask(**fields, reasoning={"effort": "low"}, service_tier="flex")).json
    assert {name: reply[name] for name in fields} == fields
    assert reply["reasoning"] == {"effort": "low", "summary": None}
    assert reply["service_tier"] == "default"


def test_a_request_may_name_its_response(rig):
    assert rig.post(PATH, ask(request_id="resp_mine")).json["id"] == "resp_mine"


IGNORED = {
    "max_tool_calls": 3,
    "user": "u",
    "safety_identifier": "s",
    "prompt_cache_key": "k",
    "prompt_cache_retention": "24h",
    "prompt_cache_options": {"mode": "implicit"},
    "service_tier": "flex",
    "client_metadata": {"session": "s"},
}


def test_every_ignored_field_may_be_sent(rig):
    assert IGNORED.keys() == unsupported_fields.IGNORED.keys()
    assert rig.post(PATH, ask(**IGNORED)).status == 200


@in_one_test("name", unsupported_fields.REFUSED)
def test_a_refused_field_is_named(rig, name):
    assert refused(rig, **{name: "x"})[0] == name


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, entry.neutral[0]) for name, entry in unsupported_fields.REFUSED.items() if entry.neutral],
)
def test_a_neutral_value_of_a_refused_field_passes(rig, name, value):
    assert rig.post(PATH, ask(**{name: value})).status == 200


BAD = {
    "input": ({"input": 5}, "input", "a string or a list of items"),
    "no input": ({"input": None}, "input", "is required"),
    "empty input": ({"input": []}, "input", "Provide at least one message"),
    "an item": ({"input": ["hi"]}, "input.0", "must be an object"),
    "a type of item": ({"input": [{"type": "other_call"}]}, "input.0.type", "allowed: message"),
    "a role": ({"input": [{"role": "boss", "content": "x"}]}, "input.0.role", "'user'"),
    "no content": ({"input": [{"role": "user"}]}, "input.0.content", "`input.0.content` is required"),
    "an image": (
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
        "input.0.content.0",
        "text only, so `input_image` parts are refused",
    ),
    "a file": (
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
        "input.0.content.0.file_id",
        "stores no files",
    ),
    "no arguments": (
        {"input": [{"type": "function_call", "call_id": "c", "name": "f"}]},
        "input.0.arguments",
        "is required",
    ),
    "parts of content": ({"input": [{"role": "user", "content": [5]}]}, "input.0.content", "content parts"),
    "a schema": (
        {"text": {"format": {"type": "json_schema", "schema": 5}}},
        "text.format.schema",
        "JSON Schema",
    ),
    "a reference": ({"input": [{"type": "item_reference", "id": "msg_x"}]}, "input.0.id", "not found"),
    "temperature": ({"temperature": -1}, "temperature", "must be non-negative"),
    "tokens": ({"max_output_tokens": 0}, "max_output_tokens", "must be at least 1"),
    "too many tokens": ({"max_output_tokens": 9999}, "max_output_tokens", "max_output_tokens=9999 cannot"),
    "required without tools": ({"tool_choice": "required"}, "tool_choice", "must be specified with 'tools'"),
    "an unknown tool": (
        {"tools": [TOOL], "tool_choice": {"type": "function", "name": "f"}},
        "tool_choice",
        "not found in 'tools'",
    ),
    "a hosted tool": ({"tools": [{"type": "web_search"}]}, "tools.0.type", "allowed: function"),
    "a tool without name": ({"tools": [{"type": "function"}]}, "tools.0.name", "is required"),
    "parameters": ({"tools": [{**TOOL, "parameters": 1}]}, "tools.0.parameters", "must be an object"),
    "a choice": ({"tools": [TOOL], "tool_choice": "maybe"}, "tool_choice", "allowed tools"),
    "no schema": ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema", "is required"),
    "a format": ({"text": {"format": {"type": "xml"}}}, "text.format.type", "json_schema"),
    "effort": ({"reasoning": {"effort": "huge"}}, "reasoning.effort", "'low'"),
    "reasoning": ({"reasoning": {"mode": "pro"}}, "reasoning.mode", "one mode"),
    "two constraints": (
        {"structured_outputs": {"choice": ["a"]}, "text": {"format": {"type": "json_object"}}},
        "structured_outputs",
        "Cannot specify both structured_outputs and text.format",
    ),
    "an include": ({"include": ["everything"]}, "include", "allowed: message.output_text.logprobs"),
    "background without store": (
        {"background": True, "store": False},
        "background",
        "background can only be used when `store` is true",
    ),
    "stream options": ({"stream_options": {}}, "stream_options", "stream=True"),
    "metadata": ({"metadata": {"a": 1}}, "metadata.a", "string"),
    "much metadata": ({"metadata": {str(i): "" for i in range(17)}}, "metadata", "16 pairs"),
}


@in_one_test("more, param, text", BAD.values())
def test_a_bad_request_names_its_field(rig, more, param, text):
    found, message = refused(rig, **more)
    assert found == param
    assert text in message


def test_an_unknown_model_is_not_found(rig):
    assert rig.post(PATH, {"model": "nope", "input": "hi"}).status == 404


def test_every_passed_field_is_one_of_chat():
    chat = ChatTranslation(
        ResponseRequest(input="hi"), [], [{"type": "message", "role": "user", "content": "hi"}]
    ).chat
    assert set(unsupported_fields.PASSED) <= {*type(chat).model_fields, *chat.refused, *IGNORED_IN_CHAT}


OF_VLLM = [
    "input",
    "model",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "logit_bias",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "reasoning",
    "include_reasoning",
    "include",
    "service_tier",
    "store",
    "stream",
    "background",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "truncation",
    "user",
    "skip_special_tokens",
    "include_stop_str_in_output",
    "presence_penalty",
    "frequency_penalty",
    "prompt_cache_key",
    "watermarking",
    "request_id",
    "session_id",
    "media_io_kwargs",
    "mm_processor_kwargs",
    "priority",
    "mm_payload",
    "cache_salt",
    "enable_response_messages",
    "previous_input_messages",
    "structured_outputs",
    "repetition_penalty",
    "seed",
    "stop",
    "stop_token_ids",
    "ignore_eos",
    "vllm_xargs",
    "kv_transfer_params",
    "ec_transfer_params",
    "chat_template_kwargs",
]


@pytest.mark.parametrize("name", sorted({*OF_VLLM, *ResponseCreateParamsStreaming.__annotations__}))
def test_no_documented_field_is_forgotten(name):
    known = {
        *ResponseRequest.model_fields,
        *unsupported_fields.PASSED,
        *unsupported_fields.REFUSED,
        *unsupported_fields.IGNORED,
    }
    assert name in known


FUNCTION = {"type": "function", "name": "f"}


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [FUNCTION, {"type": []}]},
        {"tools": [{"type": {}}]},
        {"input": [{"type": "tool_search_output", "tools": [{"type": []}]}]},
        {"tools": [{"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": []}}]},
        {
            "tools": [
                {
                    "type": "namespace",
                    "name": "n",
                    "description": "d",
                    "tools": [{**FUNCTION, "description": 5}],
                }
            ]
        },
    ],
)
def test_values_of_other_types_are_refused(fields):
    request = ResponseRequest.model_validate({"input": "hi", **fields})
    with pytest.raises(RequestError):
        ChatTranslation(request, [], read_items(request.input, lambda id, where: {}))


@pytest.mark.parametrize("namespace", [[], {}, 5])
def test_a_namespace_that_is_no_text_is_none(namespace):
    named = {**FUNCTION, "namespace": namespace}
    call = {"type": "function_call", "name": "f", "arguments": "{}", "namespace": namespace}
    request = ResponseRequest.model_validate({"input": [call], "tools": [FUNCTION], "tool_choice": named})
    translation = ChatTranslation(request, [], read_items(request.input, lambda id, where: {}))
    assert translation.chat.messages[0].tool_calls[0].function.name == "f"
    assert translation.tool_choice == {"type": "function", "function": {"name": "f"}}
