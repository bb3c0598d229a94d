"""What a client of messages reads: whole replies, and streams that say the same."""

from __future__ import annotations

import json

import pytest
from every_case import every_case
from hypothesis import given
from hypothesis import strategies as st
from messages_bodies import SCRIPTS, argued, begun, body, script, thought
from scripted import ScriptedPipeline, said

from pipelines.base.errors import EngineError, Unavailable
from pipelines.values.reply_values import Citation
from pipelines.values.search_values import Hit
from server.apis.messages.content_builder import ContentBuilder, MessageContext
from server.apis.messages.events import event
from server.apis.messages.reply_models import BlockDelta, TextDelta

PATH = "/v1/messages"


@pytest.fixture
def ask(make_rig):
    def post(batches, path=PATH, **fields):
        pipeline = ScriptedPipeline()
        pipeline.batches = batches
        return make_rig(pipeline).post(path, body(**fields))

    return post


def events(answer):
    """(name, data) of each event; comments left out."""
    blocks = answer.body.decode().split("\n\n")
    assert blocks.pop() == ""
    events_found = []
    for block in blocks:
        if not block.startswith(":"):
            name, data = block.split("\n")
            events_found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    assert all(name == data["type"] for name, data in events_found)
    return events_found


def kinds(answer):
    return [name for name, _ in events(answer)]


@pytest.fixture
def reply(ask):
    return lambda name, **fields: ask(SCRIPTS[name], **fields).json


def test_a_plain_reply(reply):
    said = reply("text")
    assert said.pop("id").startswith("msg_")
    assert said == {
        "type": "message",
        "role": "assistant",
        "model": "tiny",
        "content": [{"type": "text", "text": "Hello", "citations": None}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": {
            "input_tokens": 3,
            "output_tokens": 3,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens_details": None,
            "cache_creation": None,
            "server_tool_use": None,
            "inference_geo": None,
            "service_tier": "standard",
        },
    }


def test_a_refusal_has_details_whole_and_streamed(ask):
    refused = script(said("I cannot", "content_filter"))
    details = {"type": "refusal", "category": None, "explanation": None}
    assert ask(refused).json["stop_details"] == details
    (end,) = [data["delta"] for name, data in events(ask(refused, stream=True)) if name == "message_delta"]
    assert (end["stop_reason"], end["stop_details"]) == ("refusal", details)


def test_thinking_is_a_block_of_its_own(reply):
    thinking, text = reply("thinking")["content"]
    assert (thinking["type"], thinking["thinking"], text["text"]) == ("thinking", "Let me see.", "Yes.")
    assert thinking["signature"]


def test_thinking_that_the_client_omits_is_empty(reply):
    thinking = {"type": "adaptive", "display": "omitted"}
    thought, _ = reply("thinking", thinking=thinking)["content"]
    assert (thought["type"], thought["thinking"]) == ("thinking", "")


def test_thinking_that_is_switched_off_is_not_shown(reply):
    (block,) = reply("thinking", thinking={"type": "disabled"})["content"]
    assert block["text"] == "Yes."


def test_a_call_is_a_block(reply):
    said = reply("a_call")
    _, call = said["content"]
    assert call == {
        "type": "tool_use",
        "id": "call_0",
        "name": "get_weather",
        "input": {"city": "Oslo"},
        "caller": {"type": "direct"},
    }
    assert said["stop_reason"] == "tool_use"


def test_a_forced_call_ends_as_a_call(ask):
    named = script(begun(0), argued(0, "{}"), said("", "stop"))
    assert ask(named).json["stop_reason"] == "tool_use"


def test_one_call_where_the_client_wants_no_more(ask):
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    tools = [{"name": "get_weather", "input_schema": {"type": "object"}}]
    said = ask(SCRIPTS["two_calls"], tools=tools, tool_choice=choice).json
    assert [block["id"] for block in said["content"]] == ["call_0"]


@pytest.mark.parametrize(
    ("name", "reason", "sequence"),
    [
        ("text", "end_turn", None),
        ("a_stop_sequence", "stop_sequence", "Two"),
        ("too_long", "max_tokens", None),
        ("no_room", "model_context_window_exceeded", None),
    ],
)
def test_why_it_stopped(reply, name, reason, sequence):
    said = reply(name)
    assert (said["stop_reason"], said["stop_sequence"]) == (reason, sequence)


def test_arguments_that_a_limit_cut_off_are_read_as_far_as_they_go(reply):
    (call,) = reply("a_call_cut_off")["content"]
    assert call["input"] == {"city": "Oslo"}


def test_arguments_that_are_no_object_are_none(ask):
    (call,) = ask(script(begun(0), argued(0, "nonsense"), said("", "tool_calls"))).json["content"]
    assert call["input"] == {}


def test_tokens_found_in_the_cache_are_counted_apart(ask):
    used = ask(script(said("Hi", "stop", num_cached=2))).json["usage"]
    assert (used["input_tokens"], used["cache_read_input_tokens"]) == (1, 2)


def test_the_order_of_events(ask):
    assert kinds(ask(SCRIPTS["text"], stream=True)) == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_thinking_is_signed_before_it_stops(ask):
    found = events(ask(SCRIPTS["thinking"], stream=True))
    deltas = [data["delta"]["type"] for name, data in found if name == "content_block_delta"]
    assert deltas == ["thinking_delta", "thinking_delta", "signature_delta", "text_delta"]


def test_arguments_arrive_as_pieces_of_json(ask):
    found = events(ask(SCRIPTS["two_calls"], stream=True))
    pieces = [data for name, data in found if name == "content_block_delta"]
    assert [(piece["index"], piece["delta"]["partial_json"]) for piece in pieces] == [
        (0, '{"city": "Oslo"}'),
        (1, '{"city": "Rome"}'),
    ]


def test_the_last_delta_counts_what_the_first_could_not_know(ask):
    found = dict(events(ask(script(said("Hi"), said("", "stop", num_cached=2)), stream=True)))
    assert found["message_start"]["message"]["usage"]["output_tokens"] == 0
    assert found["message_delta"]["usage"]["output_tokens"] == 2


def test_the_common_event_is_what_the_model_writes(ask):
    text = 'na\u00efve \u2028 "quoted"'
    answer = ask(script(said(text), said("", "stop")), stream=True)
    (delta,) = [data for name, data in events(answer) if name == "content_block_delta"]
    model = BlockDelta(index=0, delta=TextDelta(text=text))
    assert delta == json.loads(event(model).split(b"data: ")[1])


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_block_is_opened_and_closed_in_turn(ask, name):
    open_blocks, seen = [], []
    for kind, data in events(ask(SCRIPTS[name], stream=True)):
        if kind == "content_block_start":
            assert not open_blocks
            open_blocks.append(data["index"])
            seen.append(data["index"])
        elif kind == "content_block_delta":
            assert open_blocks == [data["index"]]
        elif kind == "content_block_stop":
            assert open_blocks.pop() == data["index"]
    assert not open_blocks
    assert seen == list(range(len(seen)))


def test_a_failure_before_the_first_piece_has_a_status(ask):
    answer = ask([Unavailable("the engine is starting")], stream=True)
    assert answer.status == 503
    assert answer.json == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "the engine is starting"},
        "request_id": answer.headers["request-id"],
    }


def test_a_failure_in_a_stream_is_its_last_event(ask):
    answer = ask([*script(said("Hel")), EngineError("the step failed")], stream=True)
    name, data = events(answer)[-1]
    assert (answer.status, name) == (200, "error")
    assert data["error"] == {"type": "api_error", "message": "the step failed"}


def test_a_fault_of_ours_says_nothing_of_itself(ask):
    answer = ask([RuntimeError("secret")])
    assert answer.status == 500
    assert b"secret" not in answer.body
    assert answer.json["error"]["type"] == "api_error"


@pytest.mark.parametrize("path", ["/v1/messages", "/v3/messages", "/v1/messages/count_tokens"])
@pytest.mark.parametrize(
    ("sent", "status", "kind"),
    [
        (b"{", 400, "invalid_request_error"),
        (b"[]", 400, "invalid_request_error"),
        (body(model="nope"), 404, "not_found_error"),
        (body(messages=[]), 400, "invalid_request_error"),
    ],
    ids=["no JSON", "no object", "no model", "no messages"],
)
def test_errors_have_anthropics_shape(rig, path, sent, status, kind):
    if path.endswith("count_tokens") and isinstance(sent, dict):
        sent = {name: value for name, value in sent.items() if name != "max_tokens"}
    answer = rig.post(path, sent)
    assert (answer.status, answer.json["type"], answer.json["error"]["type"]) == (status, "error", kind)


def test_a_wrong_method_has_anthropics_shape_too(rig):
    answer = rig.get(PATH)
    assert (answer.status, answer.json["error"]["type"]) == (405, "invalid_request_error")


def test_overload_is_a_rate_limit(make_rig):
    rig = make_rig(max_concurrency=1)
    leave = rig.services.admission.enter()
    answer = rig.post(PATH, body())
    leave()
    assert (answer.status, answer.json["error"]["type"]) == (429, "rate_limit_error")
    assert answer.headers["retry-after"]


@pytest.mark.parametrize("field", ["max_tokens", "messages"])
def test_a_missing_field_is_named(make_rig, field):
    sent = body()
    del sent[field]
    assert f"`{field}` is required" in make_rig().post(PATH, sent).json["error"]["message"]


def test_a_model_without_a_conversation_is_refused(make_rig):
    answer = make_rig(ScriptedPipeline(task="completion")).post(PATH, body())
    assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")


def test_a_reply_carries_its_request_id(ask):
    answer = ask(SCRIPTS["text"])
    assert answer.headers["request-id"] == answer.headers["x-request-id"]


def test_thinking_tokens_are_counted(ask):
    batches = script(thought("Hm."), said("Yes.", "stop", num_reasoning=0))
    batches[0][0][1].num_reasoning = 1
    used = ask(batches).json["usage"]
    assert used["output_tokens_details"] == {"thinking_tokens": 1}


def test_every_prefix_and_the_root_of_anthropics_client_lead_there(make_rig):
    for prefix in ("/v1", "/v3", "/v3/v1"):
        assert make_rig().post(prefix + "/messages", body()).status == 200


WORDS = st.text("ab ", max_size=3)
PIECES = st.lists(
    st.one_of(
        st.builds(said, WORDS, reasoning=WORDS),
        st.integers(0, 3).map(begun),
        st.builds(argued, st.integers(0, 3), st.just('{"a": 1}')),
    ),
    max_size=8,
)


def test_citations_that_come_together_are_each_told(ask):
    passages = [Hit(name, f"text of {name}", 1.0) for name in ("a", "b")]
    cited = [Citation(i + 1, 4 * i, 4 * i + 3, passage) for i, passage in enumerate(passages)]
    script = [[(0, said("[1] [2]", "stop", citations=cited))]]
    (block,) = ask(script).json["content"]
    assert [citation["source"] for citation in block["citations"]] == ["a", "b"]
    deltas = [data["delta"] for _, data in events(ask(script, stream=True)) if "delta" in data]
    streamed = [delta["citation"] for delta in deltas if delta.get("type") == "citations_delta"]
    assert streamed == block["citations"]


@given(PIECES)
def test_steps_tell_all_that_the_blocks_hold(updates):
    content, seen = ContentBuilder(MessageContext(id="msg_1", model="tiny")), {}
    for update in [*updates, said("", "stop")]:
        for what, block, words in content.add(update):
            seen.setdefault(block.index, []).append((what, words))
    for block in content.blocks:
        (opened, _), *deltas, (closed, _) = seen[block.index]
        assert (opened, closed) == ("start", "stop")
        assert "".join(words for _, words in deltas) == "".join(block.pieces)
    text = "".join(update.content for update in updates)
    assert text == "".join("".join(block.pieces) for block in content.blocks if block.kind == "text")


@every_case(("num_cached", "read"), [(0, (3, 0)), (2, (1, 2)), (3, (0, 3))])
def test_the_first_event_counts_what_was_reused_as_the_last_does(num_cached, read, ask):
    pieces = [said("Hel", num_cached=num_cached), said("lo"), said("", "stop")]
    told = dict(events(ask(script(*pieces), stream=True)))
    for usage in (told["message_start"]["message"]["usage"], told["message_delta"]["usage"]):
        assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == read
    assert told["message_start"]["message"]["usage"]["output_tokens"] == 0
