"""The order of events, and that a whole reply is what its stream ends with."""

from __future__ import annotations

import itertools

import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from responses_bodies import PATH, TOOL, ask, called, events, thought, types
from scripted import logprob, said

from pipelines.base.errors import EngineError
from pipelines.values.reply_values import ToolCallPiece

KNOWN = TypeAdapter(ResponseStreamEvent)
BEGIN = ["created", "in_progress"]
TEXT = ["output_item.added", "content_part.added", "output_text.delta"]
TEXT_END = ["output_text.done", "content_part.done", "output_item.done"]
CALL = ["output_item.added", "function_call_arguments.delta"]
CALL_END = ["function_call_arguments.done", "output_item.done"]

REPLIES = {
    "text": (
        [said("Hel"), said("lo"), said("", "stop")],
        [*BEGIN, *TEXT, "output_text.delta", *TEXT_END, "completed"],
    ),
    "reasoning": (
        [thought("hm"), said("\n\n"), said("Yes"), said("", "stop")],
        [
            *BEGIN,
            "output_item.added",
            "content_part.added",
            "reasoning_text.delta",
            "reasoning_text.done",
            "content_part.done",
            "output_item.done",
            *TEXT,
            *TEXT_END,
            "completed",
        ],
    ),
    "calls": (
        [
            called(ToolCallPiece(0, id="c0", name="get_weather")),
            called(ToolCallPiece(0, '{"location": ')),
            called(
                ToolCallPiece(0, '"Rome"}'),
                ToolCallPiece(1, id="c1", name="get_weather"),
                ToolCallPiece(1, "{}"),
            ),
            said("", "tool_calls"),
        ],
        [
            *BEGIN,
            *CALL,
            "function_call_arguments.delta",
            *CALL_END,
            *CALL,
            *CALL_END,
            "completed",
        ],
    ),
    "text and a call": (
        [
            said("Let me see."),
            said("\n"),
            called(ToolCallPiece(0, "{}", "c0", "get_weather"), finish="tool_calls"),
        ],
        [*BEGIN, *TEXT, "output_text.delta", *TEXT_END, *CALL, *CALL_END, "completed"],
    ),
    "a call ends in the piece that says more": (
        [
            called(ToolCallPiece(0, "{", "c0", "get_weather")),
            said("So.", tool_calls=[ToolCallPiece(0, "}"), ToolCallPiece(1, "{}", "c1", "get_weather")]),
            said("", "tool_calls"),
        ],
        [
            *BEGIN,
            *CALL,
            "function_call_arguments.delta",
            *CALL_END,
            *TEXT,
            *TEXT_END,
            *CALL,
            *CALL_END,
            "completed",
        ],
    ),
    "cut": (
        [said("Hel"), said("lo", "length")],
        [*BEGIN, *TEXT, "output_text.delta", *TEXT_END, "incomplete"],
    ),
    "nothing": ([said("", "stop")], [*BEGIN, "completed"]),
    "only space": ([said(" \n"), said("", "stop")], [*BEGIN, *TEXT, *TEXT_END, "completed"]),
}


def one_by_one(pieces):
    return [[(0, piece)] for piece in pieces]


def without_names(value):
    """A response without the ids and times that differ from one to the next."""
    if isinstance(value, dict):
        own = ("id", "item_id", "created_at", "completed_at")
        return {key: without_names(item) for key, item in value.items() if key not in own}
    return [without_names(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("pieces", "expected"), REPLIES.values(), ids=REPLIES)
def test_events_come_in_order(rig, pieces, expected):
    rig.pipeline.batches = one_by_one(pieces)
    found = events(rig.post(PATH, ask(stream=True, tools=[TOOL])).body)
    assert types(found) == expected
    assert [event["sequence_number"] for event in found] == list(range(len(found)))


@pytest.mark.parametrize("pieces", [reply[0] for reply in REPLIES.values()], ids=REPLIES)
def test_every_event_is_one_that_clients_know(rig, pieces):
    rig.pipeline.batches = one_by_one(pieces)
    for event in events(rig.post(PATH, ask(stream=True, tools=[TOOL])).body):
        KNOWN.validate_python(event)


@pytest.mark.parametrize("pieces", [reply[0] for reply in REPLIES.values()], ids=REPLIES)
def test_a_whole_reply_is_what_its_stream_ends_with(rig, pieces):
    rig.pipeline.batches = one_by_one(pieces)
    whole = rig.post(PATH, ask(tools=[TOOL])).json
    last = events(rig.post(PATH, ask(stream=True, tools=[TOOL])).body)[-1]
    assert without_names(last["response"]) == without_names(whole)


@pytest.mark.parametrize("pieces", [reply[0] for reply in REPLIES.values()], ids=REPLIES)
def test_items_at_their_end_are_those_of_the_response(rig, pieces):
    rig.pipeline.batches = one_by_one(pieces)
    found = events(rig.post(PATH, ask(stream=True, tools=[TOOL])).body)
    done = [event["item"] for event in found if event["type"] == "response.output_item.done"]
    added = [event["item"]["id"] for event in found if event["type"] == "response.output_item.added"]
    assert done == found[-1]["response"]["output"]
    assert added == [item["id"] for item in done]


def test_an_event_is_never_split_between_writes(rig):
    for write in rig.post(PATH, ask(stream=True)).writes:
        assert write.startswith(b"event: ")
        assert write.endswith(b"\n\n")


def test_arguments_are_joined_from_their_pieces(rig):
    rig.pipeline.batches = one_by_one(REPLIES["calls"][0])
    output = rig.post(PATH, ask(tools=[TOOL])).json["output"]
    assert [(item["call_id"], item["arguments"]) for item in output] == [
        ("c0", '{"location": "Rome"}'),
        ("c1", "{}"),
    ]
    assert {item["status"] for item in output} == {"completed"}


def test_one_call_at_a_time_when_asked(rig):
    rig.pipeline.batches = one_by_one(REPLIES["calls"][0])
    output = rig.post(PATH, ask(tools=[TOOL], parallel_tool_calls=False)).json["output"]
    assert [item["call_id"] for item in output] == ["c0"]


def test_reasoning_is_left_out_when_not_wanted(rig):
    rig.pipeline.batches = one_by_one(REPLIES["reasoning"][0])
    reply = rig.post(PATH, ask(include_reasoning=False)).json
    assert [item["type"] for item in reply["output"]] == ["message"]


def test_what_was_cut_is_incomplete(rig):
    rig.pipeline.batches = one_by_one(REPLIES["cut"][0])
    reply = rig.post(PATH, ask(max_output_tokens=2)).json
    assert (reply["status"], reply["completed_at"]) == ("incomplete", None)
    assert reply["incomplete_details"] == {"reason": "max_output_tokens"}
    assert reply["output"][-1]["status"] == "incomplete"


def test_logprobs_are_of_what_is_said(rig):
    rig.pipeline.batches = one_by_one(
        [
            thought("hm", logprobs=[logprob("hm")]),
            said("", logprobs=[logprob("H", -0.1, ("H", -0.1))]),
            said("Hi", logprobs=[logprob("i")]),
            said("", "stop", logprobs=[logprob("<end>")]),
        ]
    )
    fields = {"include": ["message.output_text.logprobs"], "top_logprobs": 1}
    part = rig.post(PATH, ask(**fields)).json["output"][-1]["content"][0]
    assert [entry["token"] for entry in part["logprobs"]] == ["H", "i", "<end>"]
    assert part["logprobs"][0]["top_logprobs"] == [{"token": "H", "logprob": -0.1, "bytes": [72]}]
    events_found = events(rig.post(PATH, ask(stream=True, **fields)).body)
    deltas = [event["logprobs"] for event in events_found if event["type"] == "response.output_text.delta"]
    assert list(itertools.chain(*deltas)) == part["logprobs"]


def test_logprobs_of_reasoning_and_text_in_one_piece_are_told_apart(rig):
    entries = [logprob("hm"), logprob("H"), logprob("i")]
    both = said("Hi", "stop", reasoning="hm", is_reasoning=[True, False, False], logprobs=entries)
    rig.pipeline.batches = one_by_one([both])
    part = rig.post(PATH, ask(top_logprobs=1)).json["output"][-1]["content"][0]
    assert [entry["token"] for entry in part["logprobs"]] == ["H", "i"]


def test_usage_counts_input_cache_output_and_reasoning(rig):
    rig.pipeline.batches = one_by_one(
        [thought("hm", num_cached=2), said("Hi", num_tokens=3), said("", "stop", num_tokens=1)]
    )
    usage = rig.post(PATH, ask()).json["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (3, 5, 8)
    assert usage["input_tokens_details"]["cached_tokens"] == 2
    assert usage["output_tokens_details"]["reasoning_tokens"] == 1


def test_a_failure_in_the_middle_is_an_error_and_a_failed_response(rig):
    rig.pipeline.batches = [[(0, said("Hel"))], EngineError("the step failed")]
    answer = rig.post(PATH, ask(stream=True))
    events_found = events(answer.body)
    assert types(events_found)[-2:] == ["error", "failed"]
    assert events_found[-2]["message"] == "the step failed"
    assert "error" not in events_found[-2]  # clients take such a key for an error of the transport
    failed = events_found[-1]["response"]
    assert (failed["status"], failed["error"]) == (
        "failed",
        {"code": "server_error", "message": "the step failed"},
    )
    assert failed["output"][0]["content"][0]["text"] == "Hel"


@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_at_once_is_a_status(rig, stream):
    rig.pipeline.batches = [EngineError("the step failed")]
    answer = rig.post(PATH, ask(stream=stream))
    assert (answer.status, answer.error["message"]) == (500, "the step failed")
