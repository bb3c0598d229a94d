"""The cases of the OpenResponses compliance suite, with its lists of required fields.

The one case with an image is refused: the models here take text.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from responses_bodies import PATH, TOOL, called, events
from scripted import said

from pipelines.values.reply_values import ToolCallPiece

KNOWN = TypeAdapter(ResponseStreamEvent)
RECORDED = Path(__file__).parents[2] / "recorded"

REQUIRED = {
    "id": str,
    "object": str,
    "created_at": int,
    "completed_at": int | None,
    "status": str,
    "incomplete_details": dict | None,
    "model": str,
    "previous_response_id": str | None,
    "instructions": str | None,
    "output": list,
    "error": dict | None,
    "tools": list,
    "tool_choice": str | dict,
    "truncation": str,
    "parallel_tool_calls": bool,
    "text": dict,
    "top_p": float,
    "presence_penalty": float,
    "frequency_penalty": float,
    "top_logprobs": int,
    "temperature": float,
    "reasoning": dict | None,
    "user": str | None,
    "usage": dict | None,
    "max_output_tokens": int | None,
    "max_tool_calls": int | None,
    "store": bool,
    "background": bool,
    "service_tier": str,
    "metadata": dict,
    "safety_identifier": str | None,
    "prompt_cache_key": str | None,
}
OF_MESSAGE = {"id", "type", "role", "status", "content"}
OF_TEXT = {"type", "text", "annotations", "logprobs"}
OF_CALL = {"id", "type", "call_id", "name", "arguments", "status"}
OF_USAGE = {"input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details", "total_tokens"}
OF_TOOL = {"type", "name", "description", "parameters", "strict"}

SAY_HELLO = {"type": "message", "role": "user", "content": "Say hello in exactly 3 words."}
TURNS = [
    {"type": "message", "role": "user", "content": "My name is Alice."},
    {"type": "message", "role": "assistant", "content": "Hello Alice!"},
    {"type": "message", "role": "user", "content": "What is my name?"},
]
SYSTEM = [
    {"type": "message", "role": "system", "content": "You are a pirate. Always respond in pirate speak."},
    {"type": "message", "role": "user", "content": "Say hello."},
]
WEATHER = {
    "input": [{"type": "message", "role": "user", "content": "What's the weather like in San Francisco?"}],
    "tools": [TOOL],
}
CASES = {
    "basic-response": {"input": [SAY_HELLO]},
    "system-prompt": {"input": SYSTEM},
    "multi-turn": {"input": TURNS},
}
CALL = [
    [(0, called(ToolCallPiece(0, id="call_1", name="get_weather")))],
    [(0, called(ToolCallPiece(0, '{"location": "San Francisco"}')))],
    [(0, said("", "tool_calls"))],
]


def check_response(response):
    for name, kind in REQUIRED.items():
        assert name in response
        assert isinstance(response[name], kind), name
    assert response["object"] == "response"
    Response.model_validate(response)
    if response["usage"] is not None:
        assert response["usage"].keys() == OF_USAGE
    assert all(tool.keys() >= OF_TOOL for tool in response["tools"])
    for item in response["output"]:
        required = {"message": OF_MESSAGE, "function_call": OF_CALL, "reasoning": {"id", "type", "summary"}}
        assert required[item["type"]] <= item.keys()
        if item["type"] == "message":
            assert all(part.keys() >= OF_TEXT for part in item["content"])


def streamed(rig, fields):
    """The events of a stream, each one checked; the last response too."""
    answer = rig.post(PATH, {"model": "tiny", "stream": True, **fields})
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = events(answer.body)
    for event in found:
        KNOWN.validate_python(event)
        if "response" in event:
            check_response(event["response"])
    return found


@pytest.mark.parametrize("fields", CASES.values(), ids=CASES)
def test_a_whole_response(rig, fields):
    response = rig.post(PATH, {"model": "tiny", **fields}).json
    check_response(response)
    assert response["output"]
    assert response["status"] == "completed"


def test_streaming_response(rig):
    found = streamed(rig, {"input": "Count from 1 to 5."})
    assert found[-1]["response"]["status"] == "completed"


def test_tool_calling(rig):
    rig.pipeline.batches = CALL
    response = rig.post(PATH, {"model": "tiny", **WEATHER}).json
    check_response(response)
    assert [item["type"] for item in response["output"]] == ["function_call"]


def test_tool_calling_streaming(rig):
    rig.pipeline.batches = CALL
    found = streamed(rig, WEATHER)
    of_calls = [event["type"] for event in found if event.get("item", {}).get("type") == "function_call"]
    assert of_calls == ["response.output_item.added", "response.output_item.done"]
    names = {event["type"] for event in found}
    assert {"response.function_call_arguments.delta", "response.function_call_arguments.done"} <= names


def test_an_image_is_refused_by_name(rig):
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    content = [{"type": "input_text", "text": "What is it?"}, image]
    answer = rig.post(PATH, {"model": "tiny", "input": [{"role": "user", "content": content}]})
    assert (answer.status, answer.error["param"]) == (400, "input.0.content.1")


def test_a_response_has_every_key_that_vllm_recorded(rig):
    recorded = json.loads((RECORDED / "resp__001_basic.json").read_text())
    response = rig.post(PATH, {"model": "tiny", "input": "Say hi"}).json
    assert recorded.keys() <= response.keys()
    assert recorded["usage"].keys() <= response["usage"].keys()
    for name in ("input_tokens_details", "output_tokens_details"):
        assert recorded["usage"][name].keys() <= response["usage"][name].keys()
    phase = {"phase"}  # null in vLLM's, which the specification does not allow
    assert recorded["output"][0].keys() - phase == response["output"][0].keys() - phase
    assert "phase" not in response["output"][0]
    assert recorded["output"][0]["content"][0].keys() <= response["output"][0]["content"][0].keys()
