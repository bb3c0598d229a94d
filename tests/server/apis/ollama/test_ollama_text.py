"""Ollama's chat and generate: what bodies become, and the lines and objects of replies."""

from __future__ import annotations

import base64
import json

import pytest
from every_case import every_case
from one_test import in_one_test
from scripted import ScriptedPipeline, logprob, said

from pipelines.base.errors import ContextTooLong, EngineError
from pipelines.values.reply_values import ToolCallPiece

CHAT, GENERATE = "/api/chat", "/api/generate"
HI = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
PNG = base64.b64encode(b"\x89PNG and so on").decode()
WITHOUT_TEMPLATE = {"task": "completion", "tools": None}


def lines(reply):
    assert reply.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in reply.body.decode().splitlines()]


def test_a_stream_is_one_object_a_line(rig):
    first, second, last = lines(rig.post(CHAT, {**HI, "model": "tiny:latest"}))
    assert first["message"] == {"role": "assistant", "content": "Hel"}
    assert (second["message"]["content"], second["done"]) == ("lo", False)
    assert {last["model"] for last in (first, second, last)} == {"tiny:latest"}
    assert (last["done"], last["done_reason"], last["message"]["content"]) == (True, "stop", "")
    assert last["created_at"].endswith("Z")
    assert all(last[name] > 0 for name in ("total_duration", "load_duration", "prompt_eval_duration"))
    assert (last["prompt_eval_count"], last["eval_count"]) == (3, 3)


def test_a_whole_reply_is_one_object(rig):
    reply = rig.post(GENERATE, {"model": "TINY", "prompt": "hi", "stream": False})
    assert reply.headers["content-type"] == "application/json"
    assert (reply.json["response"], reply.json["done"], reply.json["model"]) == ("Hello", True, "TINY")
    assert "message" not in reply.json
    assert rig.pipeline.asked.messages == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("stream", [True, False])
def test_the_time_of_the_prompt_is_told(rig, stream):
    first = said("Hel")
    first.piece.prefill_s = 0.25
    rig.pipeline.batches = [[(0, first)], [(0, said("lo", "stop"))]]
    reply = rig.post(CHAT, {**HI, "stream": stream})
    assert (lines(reply)[-1] if stream else reply.json)["prompt_eval_duration"] == 250_000_000


def test_a_reply_that_is_full_says_so(rig):
    rig.pipeline.batches = [[(0, said("Hel", "length"))]]
    assert lines(rig.post(CHAT, HI))[-1]["done_reason"] == "length"


def test_reasoning_comes_before_the_text(rig):
    rig.pipeline.batches = [[(0, said("", reasoning="hm"))], [(0, said("so", "stop"))]]
    first, second, _ = lines(rig.post(CHAT, HI))
    assert first["message"] == {"role": "assistant", "content": "", "thinking": "hm"}
    assert second["message"]["content"] == "so"
    assert rig.post(GENERATE, {"model": "tiny", "prompt": "hi", "stream": False}).json["thinking"] == "hm"


def test_calls_are_whole_with_their_arguments_as_objects(rig):
    rig.pipeline.batches = [
        [(0, said("", tool_calls=[ToolCallPiece(0, "", "x", "f")]))],
        [(0, said("", tool_calls=[ToolCallPiece(0, '{"a": '), ToolCallPiece(0, "1}")]))],
        [(0, said("", tool_calls=[ToolCallPiece(1, "{}", "y", "g")]))],
        [(0, said("", "tool_calls"))],
    ]
    streamed = lines(rig.post(CHAT, {**HI, "tools": [TOOL]}))
    calls = [call for line in streamed for call in line["message"].get("tool_calls", [])]
    assert [call["function"] for call in calls] == [
        {"index": 0, "name": "f", "arguments": {"a": 1}},
        {"index": 1, "name": "g", "arguments": {}},
    ]
    assert all(call["id"].startswith("call_") and len(call["id"]) == 13 for call in calls)
    assert streamed[-1]["done_reason"] == "stop"
    whole = rig.post(CHAT, {**HI, "tools": [TOOL], "stream": False}).json["message"]["tool_calls"]
    assert [call["function"]["name"] for call in whole] == ["f", "g"]


def test_log_probabilities_stand_beside_their_tokens(rig):
    rig.pipeline.batches = [[(0, said("a", "stop", logprobs=[logprob("a", -0.5, ("b", -1.0))]))]]
    reply = rig.post(CHAT, {**HI, "stream": False, "logprobs": True, "top_logprobs": 1}).json
    assert reply["logprobs"] == [
        {
            "token": "a",
            "logprob": -0.5,
            "bytes": [97],
            "top_logprobs": [{"token": "b", "logprob": -1.0, "bytes": [98]}],
        }
    ]
    assert rig.pipeline.asked.sampling["logprobs"] == 1


def test_options_become_sampling_parameters(rig):
    options = {
        "temperature": 0.5,
        "top_k": 7,
        "seed": 3,
        "num_predict": 9,
        "repeat_penalty": 1.1,
        "stop": ["x"],
    }
    rig.post(CHAT, {**HI, "options": {**options, "num_gpu": 1, "min_p": None}})
    asked = rig.pipeline.asked
    assert {
        name: asked.sampling[name] for name in ("temperature", "top_k", "seed", "repetition_penalty")
    } == {
        "temperature": 0.5,
        "top_k": 7,
        "seed": 3,
        "repetition_penalty": 1.1,
    }
    assert (asked.default_max_tokens, asked.stop) == (9, ["x"])
    assert asked.fallbacks == {"temperature": 0.8, "top_k": 40, "top_p": 0.9}


@pytest.mark.parametrize(
    ("think", "kwargs"),
    [
        (None, {}),
        (True, {"enable_thinking": True}),
        (False, {"enable_thinking": False}),
        ("high", {"enable_thinking": True, "reasoning_effort": "high"}),
    ],
)
def test_thinking_is_a_variable_of_the_template(make_rig, think, kwargs):
    rig = make_rig(ScriptedPipeline(reasoning="qwen3"))
    assert rig.post(CHAT, {**HI, "think": think}).status == 200
    assert rig.pipeline.asked.template_kwargs == kwargs


@pytest.mark.parametrize(
    ("wanted", "kind"), [("json", "json"), ({"type": "object"}, "json_schema"), ("", None), (None, None)]
)
def test_a_format_is_a_constraint(rig, wanted, kind):
    rig.post(CHAT, {**HI, "format": wanted})
    constraint = rig.pipeline.asked.constraint
    assert (constraint and constraint.kind) == kind


MADE = {"function": {"name": "f", "arguments": {"a": 1}}}
SAID = {"role": "assistant", "content": "The capital is"}
LAST = [
    ([SAID], True),
    ([{**SAID, "role": "Assistant", "thinking": "Hm."}], True),
    ([{**SAID, "images": []}], True),
    ([], False),
    ([{**SAID, "content": ""}], False),
    ([{**SAID, "content": " \n"}], False),
    ([{**SAID, "content": None, "thinking": "Hm."}], False),
    ([{**SAID, "tool_calls": [MADE]}], False),
    ([SAID, {"role": "user", "content": "Of what?"}], False),
    ([SAID, {"role": "system", "content": "Be brief."}], False),
    ([{**SAID, "tool_calls": [MADE]}, {"role": "tool", "content": "1"}], False),
]


@every_case(("last", "goes_on"), LAST)
def test_a_last_message_of_the_assistants_is_continued(last, goes_on, rig):
    assert rig.post(CHAT, {**HI, "messages": [*HI["messages"], *last]}).status == 200
    asked = rig.pipeline.asked
    assert (asked.continue_final_message, asked.add_generation_prompt) == (goes_on, not goes_on)


def test_results_of_tools_find_their_calls(rig):
    call = {"function": {"name": "f", "arguments": {"a": 1}}}
    turns = [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [call, {"function": {"name": "g", "arguments": {}}}],
        },
        {"role": "tool", "tool_name": "g", "content": "2"},
        {"role": "tool", "content": "1"},
    ]
    rig.post(CHAT, {"model": "tiny", "messages": turns, "tools": [TOOL]})
    _, called, second, first = rig.pipeline.asked.messages
    ids = [tool_call["id"] for tool_call in called["tool_calls"]]
    assert (second["tool_call_id"], first["tool_call_id"]) == (ids[1], ids[0])


def test_generate_has_a_system_text_or_no_template_at_all(rig):
    rig.post(GENERATE, {"model": "tiny", "prompt": "hi", "system": "be kind"})
    assert rig.pipeline.asked.messages[0] == {"role": "system", "content": "be kind"}
    rig.post(GENERATE, {"model": "tiny", "prompt": "<hi>", "raw": True})
    assert rig.pipeline.asked.messages is None
    assert [prompt.text for prompt in rig.pipeline.asked.prompts] == ["<hi>"]


def test_a_model_without_a_template_continues_the_prompt(make_rig):
    rig = make_rig(ScriptedPipeline(**WITHOUT_TEMPLATE))
    assert rig.post(GENERATE, {"model": "tiny", "prompt": "hi"}).status == 200
    assert [prompt.text for prompt in rig.pipeline.asked.prompts] == ["hi"]
    reply = rig.post(CHAT, HI)
    assert (reply.status, reply.json) == (400, {"error": '"tiny" does not support chat'})


def test_nothing_to_reply_to_loads_the_model(rig):
    (loaded,) = lines(rig.post(CHAT, {"model": "tiny", "keep_alive": "5m"}))
    assert (loaded["done"], loaded["done_reason"]) == (True, "load")
    assert loaded["message"] == {"role": "assistant", "content": ""}
    reply = rig.post(GENERATE, {"model": "tiny", "stream": False, "keep_alive": 0})
    assert (reply.json["response"], reply.json["done_reason"]) == ("", "unload")
    assert rig.services.client.kept == [("tiny", 300.0), ("tiny", 0.0)]
    assert rig.pipeline.calls == []


def test_clients_do_not_unload_what_admins_load(make_rig):
    rig = make_rig(api_keys=("a",), admin_keys=("b",))
    assert rig.post(CHAT, {**HI, "keep_alive": 0}, authorization="Bearer a").status == 200
    assert rig.services.client.kept == []


LONG = [
    {"role": "system", "content": "s"},
    *({"role": "user", "content": f"m{i}"} for i in range(9)),
]


class NarrowPipeline(ScriptedPipeline):
    """A pipeline whose prompt has ten tokens for each message."""

    def prepare(self, generation, *args, **more):
        call = super().prepare(generation, *args, **more)
        call.prompt_lengths = [10 * len(generation.messages)]
        if call.prompt_lengths[0] > self.max_context:
            raise ContextTooLong("too long")
        return call


@pytest.mark.parametrize(("num_ctx", "kept"), [(None, 6), (45, 4), (1000, 6), (11, 0)])
def test_the_oldest_messages_go_where_the_context_is_full(make_rig, num_ctx, kept):
    rig = make_rig(NarrowPipeline(max_context=64))
    reply = rig.post(CHAT, {"model": "tiny", "messages": LONG, "options": {"num_ctx": num_ctx}})
    if not kept:
        assert (reply.status, "num_ctx is 11" in reply.json["error"]) == (400, True)
        return
    texts = [message["content"] for message in rig.pipeline.asked.messages]
    assert texts == ["s", *(f"m{i}" for i in range(10 - kept, 9))]
    assert len(rig.pipeline.calls) <= 6  # of nine messages, found by halves


def test_a_full_context_is_an_error_without_truncate(make_rig):
    rig = make_rig(NarrowPipeline(max_context=64))
    reply = rig.post(CHAT, {"model": "tiny", "messages": LONG, "truncate": False})
    assert (reply.status, reply.json) == (400, {"error": "too long"})


def test_an_error_in_a_stream_is_a_line(rig):
    rig.pipeline.batches = [[(0, said("Hel"))], EngineError("broken")]
    assert lines(rig.post(CHAT, HI))[-1] == {"error": "broken"}


def message(**fields):
    return {"messages": [{"role": "user", "content": "hi", **fields}]}


WRONG = [
    (CHAT, b"", "missing request body"),
    (CHAT, b"{", "JSON"),
    (CHAT, {}, "model"),
    (CHAT, {"model": "none"}, "model 'none' not found"),
    (CHAT, {"model": 3}, "model"),
    (CHAT, {"messages": "hi"}, "messages"),
    (CHAT, message(role=None), "role"),
    (CHAT, message(content=[]), "content"),
    (CHAT, message(images=["data:image/png;base64,xx"]), "illegal base64 data"),
    (CHAT, message(images=[PNG]), "does not support vision"),
    (CHAT, message(tool_calls=[{"function": {"name": "f", "arguments": "{}"}}]), "arguments"),
    (CHAT, {"stream": "yes"}, "stream"),
    (CHAT, {"format": "xml"}, 'invalid format: expected "json" or a JSON schema'),
    (CHAT, {"think": "much"}, "think"),
    (CHAT, {"think": True}, '"tiny" does not support thinking'),
    (CHAT, {"options": {"seed": "x"}}, 'option "seed" must be of type integer'),
    (CHAT, {"options": {"stop": "x"}}, 'option "stop" must be of type array'),
    (CHAT, {"keep_alive": "soon"}, "keep_alive"),
    (CHAT, {"top_logprobs": 21}, "top_logprobs must be between 0 and 20"),
    (GENERATE, {"prompt": "hi", "raw": True, "system": "x"}, "raw mode does not support"),
    (GENERATE, {"prompt": "hi", "template": "{{ .Prompt }}"}, "template"),
    (GENERATE, {"prompt": "hi", "context": [1, 2]}, "/api/chat"),
    (GENERATE, {"prompt": "hi", "raw": True, "images": [PNG]}, "leave out `raw`"),
]


@in_one_test("path, body, fault", WRONG)
def test_wrong_bodies_have_ollamas_errors(rig, path, body, fault):
    if isinstance(body, dict) and body:
        body = {**HI, **body} if path == CHAT else {"model": "tiny", **body}
    reply = rig.post(path, body)
    assert reply.status == (404 if "not found" in fault else 400), reply.body
    assert list(reply.json) == ["error"]
    assert fault in reply.json["error"]


def test_a_model_without_tools(make_rig):
    rig = make_rig(ScriptedPipeline(tools=None))
    reply = rig.post(CHAT, {**HI, "tools": [TOOL]})
    assert (reply.status, reply.json) == (400, {"error": '"tiny" does not support tools'})


def test_ollama_can_be_off(make_rig):
    reply = make_rig(apis="-ollama").post(CHAT, HI)
    assert (reply.status, reply.error["code"]) == (404, 404)


def test_pieces_of_tokens_are_counted(rig):
    rig.pipeline.batches = [[(0, said("a", num_tokens=4))], [(0, said("", "stop", prefill_s=0.5))]]
    assert lines(rig.post(CHAT, HI))[-1]["eval_count"] == 5
