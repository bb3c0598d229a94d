"""Whole chat replies: shape, content rules, usage, log-probabilities."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripted import logprob, said

from pipelines.values.reply_values import ToolCallPiece
from server.schema.reply_models import ChatCompletion

CALL = ToolCallPiece(0, '{"city": "Rome"}', "chatcmpl-tool-1", "get_weather")
SECOND = ToolCallPiece(1, '{"city": "Oslo"}', "chatcmpl-tool-2", "get_weather")
RECORDED = Path(__file__).parents[3] / "recorded"
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]


def test_a_reply_joins_its_pieces_and_counts_tokens(rig):
    reply = rig.chat().json
    assert reply["choices"][0]["message"]["content"] == "Hello"
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["usage"]["prompt_tokens"] == 3
    assert reply["usage"]["completion_tokens"] == 3
    assert reply["usage"]["total_tokens"] == 6
    assert reply["system_fingerprint"].startswith("braid-")


def test_a_reply_has_every_key_that_vllm_recorded(rig):
    recorded = json.loads((RECORDED / "chat__001_basic.json").read_text())
    reply = rig.chat().json
    assert recorded.keys() == reply.keys()
    assert recorded["usage"]["prompt_tokens_details"].keys() == reply["usage"]["prompt_tokens_details"].keys()
    assert recorded["choices"][0].keys() == reply["choices"][0].keys()
    assert recorded["choices"][0]["message"].keys() <= reply["choices"][0]["message"].keys()


def test_every_reply_is_one_of_the_schema(rig):
    rig.pipeline.batches = [[(0, said("a", "stop", tool_calls=[CALL], logprobs=[logprob("a")]))]]
    ChatCompletion.model_validate(rig.chat(tools=TOOLS, logprobs=True).json)


def test_a_reply_without_a_word_has_empty_content(rig):
    rig.pipeline.batches = [[(0, said("", "stop"))]]
    message = rig.chat().json["choices"][0]["message"]
    assert message["content"] == ""
    assert "tool_calls" not in message


def test_reasoning_stands_under_both_names_and_content_is_null(rig):
    rig.pipeline.batches = [[(0, said("", reasoning="hm"))], [(0, said("", "length", reasoning="m"))]]
    message = rig.chat().json["choices"][0]["message"]
    assert (message["reasoning"], message["reasoning_content"], message["content"]) == ("hmm", "hmm", None)


def test_reasoning_can_be_left_out(rig):
    rig.pipeline.batches = [[(0, said("yes", "stop", reasoning="hm"))]]
    message = rig.chat(include_reasoning=False).json["choices"][0]["message"]
    assert (message["reasoning"], message["content"]) == (None, "yes")


def test_pure_tool_calls_have_null_content(rig):
    rig.pipeline.batches = [[(0, said("", "tool_calls", tool_calls=[CALL, SECOND]))]]
    choice = rig.chat(tools=TOOLS).json["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"][0] == {
        "id": "chatcmpl-tool-1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
    }
    assert len(choice["message"]["tool_calls"]) == 2


def test_without_parallel_calls_the_first_is_kept(rig):
    rig.pipeline.batches = [[(0, said("", "tool_calls", tool_calls=[CALL, SECOND]))]]
    message = rig.chat(tools=TOOLS, parallel_tool_calls=False).json["choices"][0]["message"]
    assert [call["id"] for call in message["tool_calls"]] == ["chatcmpl-tool-1"]


def test_several_choices_keep_their_order_and_share_one_prompt(rig):
    rig.pipeline.batches = [
        [(1, said("b", "stop", num_cached=2, num_tokens=2))],
        [(0, said("a", "length", num_cached=1, num_tokens=3))],
    ]
    reply = rig.chat(n=2).json
    assert [choice["message"]["content"] for choice in reply["choices"]] == ["a", "b"]
    usage = reply["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (3, 5)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 1


def test_the_stop_reason_is_told(rig):
    rig.pipeline.batches = [[(0, said("a", "stop", stop_reason="END"))]]
    assert rig.chat(stop="END").json["choices"][0]["stop_reason"] == "END"


def test_logprobs_show_bytes_and_alternatives(rig):
    entry = logprob("é", -0.25, ("é", -0.25), ("e", float("-inf")))
    rig.pipeline.batches = [[(0, said("é", "stop", logprobs=[entry]))]]
    shown = rig.chat(logprobs=True, top_logprobs=2).json["choices"][0]["logprobs"]["content"]
    assert shown == [
        {
            "token": "é",
            "logprob": -0.25,
            "bytes": [195, 169],
            "top_logprobs": [
                {"token": "é", "logprob": -0.25, "bytes": [195, 169]},
                {"token": "e", "logprob": -9999.0, "bytes": [101]},
            ],
        }
    ]
    assert rig.pipeline.asked.sampling["logprobs"] == 2


def test_without_logprobs_the_field_is_null(rig):
    assert rig.chat().json["choices"][0]["logprobs"] is None


@pytest.mark.parametrize("prefix", ["/v1", "/v3", "/v3/v1"])
def test_every_prefix_serves(rig, prefix):
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
    assert rig.post(f"{prefix}/chat/completions", body).status == 200
    assert rig.post(f"{prefix}/completions", {"model": "tiny", "prompt": "hi"}).status == 200


def test_the_reply_continues_the_last_message_under_its_role(rig):
    messages = [{"role": "user", "content": "hi"}, {"role": "user", "content": "I am"}]
    reply = rig.chat(messages=messages, continue_final_message=True).json
    assert reply["choices"][0]["message"]["role"] == "user"
    assert rig.pipeline.asked.add_generation_prompt is False


def test_a_prefix_is_a_last_message_to_continue(rig):
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "I am", "prefix": True}]
    said_by_field = [messages[0], {"role": "assistant", "content": "I am"}]
    assert rig.chat(messages=messages).status == 200
    marked = rig.pipeline.asked
    assert (marked.continue_final_message, marked.add_generation_prompt) == (True, False)
    rig.chat(messages=said_by_field, continue_final_message=True)
    assert marked.messages == rig.pipeline.asked.messages
    rig.chat(messages=[messages[0], {**messages[1], "prefix": False}])
    assert not rig.pipeline.asked.continue_final_message


def test_the_call_is_closed_after_the_reply(rig):
    rig.chat()
    assert rig.pipeline.calls[0].closed
