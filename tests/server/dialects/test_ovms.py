"""The dialect of /v3: OpenVINO Model Server's words, defaults and shape of errors, over the same endpoints."""

from __future__ import annotations

import json

import pytest

from pipelines.wire.sampling_params import Beams
from server.apis.messages.api import API as MESSAGES
from server.apis.routes import dialects
from server.base.settings import Settings
from server.dialects import OPENAI, OVMS

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
COMPLETION = {"model": "tiny", "prompt": "hi"}


@pytest.fixture
def chat(rig):
    return lambda **fields: rig.post("/v3/chat/completions", {**CHAT, **fields})


@pytest.fixture
def complete(rig):
    return lambda **fields: rig.post("/v3/completions", {**COMPLETION, **fields})


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/chat/completions", OPENAI),
        ("/v3/chat/completions", OVMS),
        ("/v3/v1/completions", OVMS),
        ("/v3", OVMS),
        ("/v30/completions", OPENAI),
        ("/v1/messages", MESSAGES.dialect),
        ("/v3/messages/count_tokens", MESSAGES.dialect),
        ("/tokenize", OPENAI),
    ],
)
def test_a_path_has_a_dialect(path, dialect):
    assert dialects(Settings()).of(path) is dialect


BAD_IN_BOTH = [
    ("max_tokens", None, "max_tokens is not an unsigned integer"),
    ("max_tokens", -1, "max_tokens is not an unsigned integer"),
    ("max_tokens", 2**32, "max_tokens value can't be greater than 4294967295"),
    ("ignore_eos", "yes", "ignore_eos accepts values true or false"),
    ("stop", 3, "stop is not a string or array of strings"),
    ("stop", ["a", 3], "stop array contains non string element"),
    ("stop", ["a"] * 17, "stop array must have no more than 16 strings"),
    ("include_stop_str_in_output", 1, "include_stop_str_in_output accepts values true or false"),
    ("temperature", "hot", "temperature is not a valid number"),
    ("temperature", 2.1, "temperature out of range(0.0, 2.0)"),
    ("top_p", -0.1, "top_p out of range(0.0, 1.0)"),
    ("min_p", 1, "min_p out of range [0.0, 1.0)"),
    ("top_k", 1.5, "top_k is not an integer"),
    ("top_k", 0, "top_k must be -1 (all tokens) or a positive integer"),
    ("seed", -1, "seed out of range [0, 4294967295]"),
    ("repetition_penalty", "x", "repetition_penalty is not a valid number"),
    ("presence_penalty", 2.5, "presence_penalty out of range(-2.0, 2.0)"),
    ("length_penalty", True, "length_penalty is not a valid number"),
    ("best_of", -1, "best_of is not an unsigned integer"),
    ("best_of", 0, "best_of value should be greater than 0"),
    ("n", 0, "n value should be greater than 0"),
    ("skip_special_tokens", 0, "skip_special_tokens is not a bool"),
    ("stream_options", [], "stream_options is not an object"),
    ("stream_options", {"include_usage": True}, "stream_options provided, but stream not set to true"),
]


@pytest.mark.parametrize(("field", "value", "text"), BAD_IN_BOTH)
def test_a_bad_value_is_refused_in_its_words(chat, complete, field, value, text):
    for answer in (chat(**{field: value}), complete(**{field: value})):
        assert (answer.status, answer.json) == (400, {"error": text})


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("messages", "hi", "Messages are not an array"),
        ("messages", None, "Messages are not an array"),
        ("messages", [], "Messages array cannot be empty"),
        ("messages", ["hi"], "Message is not a JSON object"),
        ("messages", [{"content": "hi"}], "Every message must have 'role' field"),
        ("tools", {}, "Tools are not an array"),
        ("tools", [1], "Tool is not a JSON object"),
        ("tools", [{"function": {}}], "Tool type is missing or invalid"),
        ("tools", [{"type": "retrieval"}], "Only function tools are supported"),
        (
            "tools",
            [{"type": "function", "function": {}}],
            "Function object does not contain a valid name field",
        ),
        (
            "tools",
            [{"type": "function", "function": {"name": "f", "parameters": []}}],
            "Function parameters are not a valid JSON object",
        ),
        ("tool_choice", 1, "tool_choice is not a valid JSON object or string"),
        ("tool_choice", "any", "tool_choice should be either 'none' or 'auto' or 'required'"),
        ("logprobs", 1, "logprobs accepts values true or false"),
        ("max_tokens", 0, "max_tokens value should be greater than 0"),
        ("max_completion_tokens", 0, "max_tokens value should be greater than 0"),
        ("response_format", "json", "response_format is not an object"),
        ("chat_template_kwargs", [], "chat_template_kwargs must be an object"),
    ],
)
def test_a_bad_value_of_a_chat_is_refused_in_its_words(chat, field, value, text):
    answer = chat(**{field: value})
    assert (answer.status, answer.json) == (400, {"error": text})


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"prompt": ""}, "prompt is missing"),
        ({"prompt": 3}, "prompt is not a string"),
        ({"echo": 1}, "echo accepts values true or false"),
        ({"logprobs": "1"}, "logprobs accepts integer values"),
        ({"max_tokens": 0}, "max_tokens value should be greater than 0 unless echo is set"),
        ({"best_of": 2, "stream": True}, "best_of cannot be used in streaming mode"),
        ({"best_of": 2, "n": 3}, "n value cannot be greater than best_of"),
    ],
)
def test_a_bad_value_of_a_completion_is_refused_in_its_words(complete, fields, text):
    answer = complete(**fields)
    assert (answer.status, answer.json) == (400, {"error": text})


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"{", "Cannot parse JSON body"),
        (b"[]", "JSON body must be an object"),
        (b"{}", "model field is missing in JSON body"),
        (b'{"model": 1}', "model field is not a string"),
        (b'{"model": "tiny", "stream": null}', "stream field is not a boolean"),
    ],
)
def test_a_body_that_is_no_request_is_a_412(rig, body, fault):
    answer = rig.post("/v3/chat/completions", body)
    assert (answer.status, answer.json) == (412, {"error": f"The file is not valid json - {fault}"})


def test_what_braid_refuses_has_the_same_shape(chat, rig):
    assert "modalities" in chat(modalities=["audio"]).json["error"]
    assert chat(temprature=1).status == 200
    assert rig.post("/v3/chat/completions", {**CHAT, "model": "nope"}).status == 404
    assert isinstance(rig.get("/v3/nowhere").json["error"], str)


def test_a_wrong_method_is_a_406(rig):
    assert rig.ask("DELETE", "/v3/chat/completions").status == 406
    assert rig.ask("DELETE", "/v1/chat/completions").status == 405


def test_it_samples_and_goes_on_for_as_long_as_the_model_can(complete, rig):
    assert complete().status == 200
    asked = rig.pipeline.asked
    assert (asked.fallbacks, asked.samples_always, asked.default_max_tokens) == ({"top_k": 40}, True, None)


def test_v1_keeps_its_own_defaults(rig):
    rig.complete()
    asked = rig.pipeline.asked
    assert (asked.fallbacks, asked.samples_always, asked.default_max_tokens) == ({}, False, 16)


def test_best_of_asks_for_beams(chat, rig):
    assert chat(best_of=3, length_penalty=0.5).status == 200
    asked = rig.pipeline.asked
    assert (asked.n, asked.sampling["beams"]) == (1, Beams(3, 0.5))


def test_a_stream_keeps_its_stop_strings(chat, rig):
    chat(stream=True, stop=["x"])
    assert rig.pipeline.asked.include_stop_str_in_output
    chat(stream=True, stop=["x"], include_stop_str_in_output=False)
    assert not rig.pipeline.asked.include_stop_str_in_output


def test_flat_tools_are_taken(chat, rig):
    assert chat(tools=[{"type": "function", "name": "f", "parameters": {}}]).status == 200
    assert rig.pipeline.asked.tools[0]["function"]["name"] == "f"


def test_a_good_reply_is_openais(chat):
    reply = json.loads(chat().body)
    assert (reply["object"], reply["choices"][0]["message"]["role"]) == ("chat.completion", "assistant")


def test_a_conversation_may_be_token_ids(chat, complete, rig):
    assert chat(messages=[1, 2]).status == 200
    assert chat(messages=[], prompt_token_ids=[1, 2]).status == 200
    assert complete(prompt="", prompt_token_ids=[1, 2]).status == 200
    assert [call.generation.prompts[0].ids for call in rig.pipeline.calls] == [[1, 2]] * 3


def message(**fields):
    return [{"role": "user", "content": "hi", **fields}]


def call(**fields):
    made = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}", **fields}
    return [{name: value for name, value in made.items() if value is not None}]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "input missing in request"),
        ({"input": 3}, "input is not a string or array"),
        ({"input": ""}, "input cannot be empty"),
        ({"input": []}, "input array must not be empty"),
        ({"input": ["a"]}, "input array items must be objects"),
        ({"input": message(role=3)}, "input item role is missing or invalid"),
        ({"input": [{"role": "user"}]}, "input item is missing required content field"),
        ({"input": message(content=3)}, "input item content must be a string or array"),
        ({"input": message(content=[])}, "input item content array must not be empty"),
        ({"input": message(content=["a"])}, "input content items must be objects"),
        ({"input": message(content=[{"text": "a"}])}, "input content item type is missing or invalid"),
        ({"input": message(content=[{"type": "input_text"}])}, "input_text requires a valid text field"),
        (
            {"input": call(call_id=None)},
            "function_call item is missing required call_id (or id) field",
        ),
        ({"input": call(name=None)}, "function_call item is missing required name field"),
        ({"input": call(arguments=None)}, "function_call item is missing required arguments field"),
        ({"input": "a", "max_output_tokens": 0}, "max_output_tokens value should be greater than 0"),
        ({"input": "a", "reasoning": "high"}, "reasoning is not an object"),
        ({"input": "a", "reasoning": {"effort": 3}}, "reasoning.effort is not a string"),
        ({"input": "a", "tools": {}}, "Tools are not an array"),
        ({"input": "a", "temperature": 3}, "temperature out of range(0.0, 2.0)"),
    ],
)
def test_a_bad_value_of_a_response_is_refused_in_its_words(rig, fields, text):
    answer = rig.post("/v3/responses", {"model": "tiny", **fields})
    assert (answer.status, answer.json) == (400, {"error": text})


@pytest.mark.parametrize("items", [message(), call(call_id=None, id="a"), "hi"])
def test_good_inputs_of_a_response_pass(rig, items):
    assert rig.post("/v3/responses", {"model": "tiny", "input": items}).status == 200


def test_a_response_may_refer_to_an_item(rig):
    answer = rig.post("/v3/responses", {"model": "tiny", "input": [{"id": "msg_1"}]})
    assert answer.json == {"error": "Item with id 'msg_1' not found."}
