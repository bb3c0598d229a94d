"""Streams: what each event holds."""

from __future__ import annotations

import json
from pathlib import Path

from scripted import ScriptedPipeline, logprob, said, text

from pipelines.values.reply_values import ToolCallPiece
from server.schema.reply_models import ChatChunk, Completion

CHAT = "/v1/chat/completions"
RECORDED = Path(__file__).parents[3] / "recorded"
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
    assert theirs[0].keys() == role.keys()
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
    call = ToolCallPiece(0, "{}", "id", "f")
    rig.pipeline.batches = [
        [(0, said("", reasoning="hm", logprobs=[logprob("hm")]))],
        [(0, said("a", "tool_calls", tool_calls=[call]))],
    ]
    answer = rig.chat(stream=True, logprobs=True, tools=TOOLS, stream_options={"include_usage": True})
    for event in answer.events[:-1]:
        ChatChunk.model_validate(event)


def test_reasoning_and_calls_are_deltas_of_their_own(rig):
    calls = [ToolCallPiece(0, "{}", "a", "f"), ToolCallPiece(1, "{}", "b", "f")]
    rig.pipeline.batches = [[(0, said("", reasoning="hm"))], [(0, said("", "tool_calls", tool_calls=calls))]]
    _, thought, named, called = deltas(rig.chat(stream=True, tools=TOOLS, parallel_tool_calls=False))
    assert thought == {"reasoning": "hm", "reasoning_content": "hm"}
    name = {"id": "a", "type": "function", "index": 0, "function": {"name": "f"}}
    assert named == {"content": None, "tool_calls": [name]}
    assert called == {"content": None, "tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}


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
