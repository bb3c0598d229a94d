"""Streams: what each event holds, what a hang-up frees, what an error in the middle looks like."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from scripted import HI, ScriptedPipeline, logprob, said, text

from pipelines.errors import EngineError, RequestError, Unavailable
from pipelines.values import ToolCall
from server import exchange
from server.schema import ChatChunk, Completion
from server.sse import KEEP_ALIVE

CHAT = "/v1/chat/completions"
RECORDED = Path(__file__).parent / "recorded"
BODY = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def deltas(answer):
    return [event["choices"][0]["delta"] for event in answer.events[:-1] if event["choices"]]


def recorded(name):
    blocks = (RECORDED / f"{name}.sse").read_text().strip().split("\n\n")
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-1]]


def test_a_stream_opens_with_the_role_and_ends_with_done(rig):
    answer = rig.chat(stream=True)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert deltas(answer) == [
        {"role": "assistant", "content": ""},
        {"content": "Hel"},
        {"content": "lo"},
        {},
    ]
    assert answer.events[-1] == "[DONE]"
    assert answer.events[-2]["choices"][0]["finish_reason"] == "stop"
    assert answer.body.endswith(b"data: [DONE]\n\n")


def test_chat_events_have_the_keys_that_vllm_recorded(rig):
    rig.pipeline.batches = [[(0, said("a"))], [(0, said("b", "length"))]]
    role, piece, last = rig.chat(stream=True).events[:-1]
    theirs = recorded("chat__086_stream")
    assert theirs[0].keys() - role.keys() == {"prompt_token_ids", "prompt_text"}
    assert (theirs[1].keys(), theirs[-1].keys()) == (piece.keys(), last.keys())
    assert theirs[1]["choices"][0].keys() == piece["choices"][0].keys()
    assert theirs[-1]["choices"][0].keys() == last["choices"][0].keys()


def test_completion_events_have_the_keys_that_vllm_recorded(rig):
    rig.pipeline.batches = [[(0, said("a"))], [(0, said("b", "length"))]]
    piece, last = rig.complete(stream=True).events[:-1]
    theirs = recorded("gen__118_cmpl_stream")
    assert (theirs[0].keys(), theirs[-1].keys()) == (piece.keys(), last.keys())
    assert theirs[0]["choices"][0].keys() == piece["choices"][0].keys()


def test_usage_comes_last_and_alone(rig):
    answer = rig.chat(stream=True, stream_options={"include_usage": True})
    usage = answer.events[-2]
    assert usage["choices"] == []
    assert usage["usage"]["prompt_tokens"] == 3
    assert usage["usage"]["completion_tokens"] == 3
    assert usage.keys() == recorded("chat__087_stream_usage")[-1].keys()
    assert all("usage" not in event for event in answer.events[:-2])


def test_usage_can_come_with_every_chunk(rig):
    options = {"include_usage": True, "continuous_usage_stats": True}
    answer = rig.chat(stream=True, stream_options=options)
    counts = [event["usage"]["completion_tokens"] for event in answer.events[:-1]]
    assert counts == [0, 1, 2, 3, 3]


def test_a_completion_stream_counts_along_too(rig):
    options = {"include_usage": True, "continuous_usage_stats": True}
    answer = rig.complete(stream=True, stream_options=options)
    assert [event["usage"]["total_tokens"] for event in answer.events[:-1]] == [4, 5, 6, 6]


def test_every_choice_opens_and_ends(rig):
    rig.pipeline.batches = [[(0, said("a")), (1, said("b"))], [(1, said("", "stop")), (0, said("", "stop"))]]
    events = rig.chat(stream=True, n=2).events[:-1]
    assert [event["choices"][0]["index"] for event in events] == [0, 1, 0, 1, 1, 0]


def test_what_piled_up_is_one_write(rig):
    rig.pipeline.batches = [[(0, said("a")), (1, said("b"))], [(0, said("", "stop")), (1, said("", "stop"))]]
    assert len(rig.chat(stream=True, n=2).writes) == 2


def test_the_fast_chunk_equals_the_model(rig):
    awkward = 'q"\\\n\t\x01é\u2028😀</script>'
    rig.pipeline.batches = [[(0, said(awkward))], [(0, said("", "stop"))]]
    answer = rig.chat(stream=True)
    raw = answer.body.split(b"\n\n")[1].removeprefix(b"data: ")
    model = ChatChunk.model_validate_json(raw)
    assert model.choices[0].delta.content == awkward
    assert json.loads(raw) == json.loads(model.to_json())
    assert list(json.loads(raw)) == list(json.loads(model.to_json()))


def test_the_fast_completion_chunk_equals_the_model(rig):
    awkward = 'q"\\\n\x01é😀'
    rig.pipeline.batches = [[(0, said(awkward))], [(0, said("", "stop"))]]
    raw = rig.complete(stream=True).body.split(b"\n\n")[0].removeprefix(b"data: ")
    model = Completion.model_validate_json(raw)
    assert model.choices[0].text == awkward
    assert json.loads(raw) == json.loads(model.to_json())


def test_every_event_is_one_of_the_schema(rig):
    call = ToolCall(0, "id", "f", "{}")
    rig.pipeline.batches = [
        [(0, said("", reasoning="hm", logprobs=[logprob("hm")]))],
        [(0, said("a", "tool_calls", tool_calls=[call]))],
    ]
    answer = rig.chat(stream=True, logprobs=True, tools=TOOLS, stream_options={"include_usage": True})
    for event in answer.events[:-1]:
        ChatChunk.model_validate(event)


def test_reasoning_and_calls_are_deltas_of_their_own(rig):
    calls = [ToolCall(0, "a", "f", "{}"), ToolCall(1, "b", "f", "{}")]
    rig.pipeline.batches = [[(0, said("", reasoning="hm"))], [(0, said("", "tool_calls", tool_calls=calls))]]
    _, thought, called = deltas(rig.chat(stream=True, tools=TOOLS, parallel_tool_calls=False))
    assert thought == {"reasoning": "hm", "reasoning_content": "hm"}
    function = {"name": "f", "arguments": "{}"}
    assert called == {
        "content": None,
        "tool_calls": [{"index": 0, "id": "a", "type": "function", "function": function}],
    }


def test_pieces_without_anything_to_show_are_no_events(rig):
    rig.pipeline.batches = [[(0, said(""))], [(0, said("", reasoning="hm"))], [(0, said("a", "stop"))]]
    assert len(rig.chat(stream=True, include_reasoning=False).events) == 3


def test_a_chunk_with_logprobs_and_no_text_is_sent(rig):
    rig.pipeline.batches = [[(0, said("", logprobs=[logprob("a")]))], [(0, said("a", "stop"))]]
    events = rig.chat(stream=True, logprobs=True).events
    assert events[1]["choices"][0]["delta"] == {}
    assert events[1]["choices"][0]["logprobs"]["content"][0]["token"] == "a"


def test_offsets_go_on_from_chunk_to_chunk(rig):
    rig.pipeline.batches = [
        [(0, said("ab", logprobs=[logprob("ab")]))],
        [(0, said("c", "stop", logprobs=[logprob("c")]))],
    ]
    events = rig.complete(stream=True, logprobs=1).events[:-1]
    assert [event["choices"][0]["logprobs"]["text_offset"] for event in events] == [[0], [2]]


def test_a_completion_graph_streams_text(make_rig):
    rig = make_rig(ScriptedPipeline(task="completion"))
    rig.pipeline.batches = [[(0, text("a"))], [(0, text("b", "length"))]]
    texts = [event["choices"][0]["text"] for event in rig.complete(stream=True).events[:-1]]
    assert texts == ["a", "b"]


def test_an_error_before_the_first_piece_has_a_status(rig):
    rig.pipeline.batches = [RequestError("token id 999 is out of vocabulary", field="prompt")]
    answer = rig.complete(stream=True)
    assert answer.status == 400
    assert answer.error["param"] == "prompt"


def test_an_error_in_the_middle_goes_into_the_stream(rig):
    rig.pipeline.batches = [[(0, said("a"))], EngineError("a step failed")]
    answer = rig.chat(stream=True)
    assert answer.status == 200
    assert answer.events[-2]["error"] == {
        "message": "a step failed",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }
    assert answer.events[-1] == "[DONE]"
    assert rig.pipeline.calls[0].closed


def test_a_fault_in_the_middle_says_nothing_of_its_inside(rig, caplog):
    rig.pipeline.batches = [[(0, said("a"))], ZeroDivisionError("secret")]
    answer = rig.chat(stream=True)
    assert "secret" not in answer.body.decode()
    assert "Internal server error" in answer.events[-2]["error"]["message"]
    assert "secret" in caplog.text


def test_a_hang_up_closes_the_call_at_once(rig):
    rig.pipeline.batches = [[(0, said("a"))], "forever"]

    async def scenario(client):
        request = client.begin_post(CHAT, BODY)
        await asyncio.wait_for(request.answer.wrote.wait(), 5)
        assert not rig.pipeline.calls[0].closed
        request.hang_up()
        await asyncio.wait_for(request.task, 1)
        assert rig.pipeline.calls[0].closed

    rig.run(scenario)
    assert rig.services.admission.num_inside == 0


def test_a_hang_up_before_the_first_piece_closes_the_call(rig):
    rig.pipeline.batches = ["forever"]

    async def scenario(client):
        request = client.begin_post(CHAT, BODY)
        await asyncio.sleep(0.05)
        request.hang_up()
        await asyncio.wait_for(request.task, 1)

    rig.run(scenario)
    assert rig.pipeline.calls[0].closed
    assert rig.services.admission.num_inside == 0


def test_a_hang_up_ends_a_reply_that_is_no_stream(rig):
    rig.pipeline.batches = ["forever"]

    async def scenario(client):
        request = client.begin_post(CHAT, {**BODY, "stream": False})
        await asyncio.sleep(0.05)
        request.hang_up()
        await asyncio.wait_for(request.task, 1)

    rig.run(scenario)
    assert rig.pipeline.calls[0].closed


def test_a_cancelled_stream_closes_its_call(rig):
    rig.pipeline.batches = [[(0, said("a"))], "forever"]

    async def scenario(client):
        request = client.begin_post(CHAT, BODY)
        await asyncio.wait_for(request.answer.wrote.wait(), 5)
        request.task.cancel()
        await asyncio.wait({request.task})

    rig.run(scenario)
    assert rig.pipeline.calls[0].closed
    assert rig.services.admission.num_inside == 0


def test_a_silent_stream_is_kept_alive(rig, monkeypatch):
    monkeypatch.setattr(exchange, "KEEP_ALIVE_S", 0.02)
    rig.pipeline.batches = [[(0, said("a"))], 0.1, [(0, said("", "stop"))]]
    answer = rig.chat(stream=True)
    assert answer.writes.count(KEEP_ALIVE) >= 2
    assert [delta.get("content") for delta in deltas(answer)] == ["", "a", None]


def test_a_stream_that_talks_needs_no_keep_alive(rig):
    assert KEEP_ALIVE not in rig.chat(stream=True).writes


def test_a_late_first_piece_does_not_hold_back_the_opening(rig, monkeypatch):
    monkeypatch.setattr("server.endpoints.generating.FIRST_UPDATE_S", 0.02)
    rig.pipeline.batches = [0.1, *HI]
    answer = rig.chat(stream=True)
    assert b'"role"' in answer.writes[0]
    assert b"Hel" not in answer.writes[0]
    assert answer.events[-1] == "[DONE]"


def test_a_failure_after_the_opening_is_an_event(rig, monkeypatch):
    monkeypatch.setattr("server.endpoints.generating.FIRST_UPDATE_S", 0.02)
    rig.pipeline.batches = [0.1, EngineError("a step failed")]
    answer = rig.chat(stream=True)
    assert answer.status == 200
    assert answer.events[-2]["error"]["code"] == 500


def test_a_shutdown_tells_open_streams(rig):
    rig.pipeline.batches = [[(0, said("a"))], "forever"]

    async def scenario(client):
        request = client.begin_post(CHAT, BODY)
        await asyncio.wait_for(request.answer.wrote.wait(), 5)
        rig.services.end_streams()
        await asyncio.wait_for(request.task, 1)
        return request.answer

    answer = rig.run(scenario)
    assert answer.events[-2]["error"]["message"] == "the server is shutting down"
    assert answer.events[-1] == "[DONE]"


@pytest.mark.parametrize("stream", [False, True])
def test_an_unavailable_engine_is_a_503_with_retry_after(rig, stream):
    rig.pipeline.batches = [Unavailable("the engine is being restarted")]
    answer = rig.chat(stream=stream)
    assert answer.status == 503
    assert answer.headers["retry-after"] == "2"
