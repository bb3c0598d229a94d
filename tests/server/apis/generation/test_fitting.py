"""Conversations that are too long for a model: what goes, what stays, and how much room a reply has."""

from __future__ import annotations

import pytest
from asgi_socket import AsgiSocket
from every_case import every_case
from scripted import ScriptedPipeline, said

from pipelines.base.errors import ContextTooLong, RequestError
from server.apis.generation.fitting import turns_to_drop

ROLES = {"s": "system", "d": "developer", "u": "user", "a": "assistant", "t": "tool"}


@every_case(
    ("roles", "parts"),
    [
        ("u", []),
        ("", []),
        ("s", []),
        ("a", []),
        ("au", [[0]]),
        ("sua", []),
        ("suau", [[1, 2]]),
        ("suuau", [[1], [2, 3]]),
        ("suadu", [[1, 2]]),
        ("uatatu", [[0, 1, 2, 3, 4]]),
        ("uatuatta", [[0, 1, 2], [4, 5, 6]]),
        ("suatatat", [[2, 3], [4, 5]]),
        ("atat", [[0, 1]]),
        ("tu", [[0]]),
    ],
)
def test_whole_turns_go_then_calls_with_their_results(roles, parts):
    assert turns_to_drop([ROLES[role] for role in roles]) == parts


class TenTokensEach(ScriptedPipeline):
    """A pipeline whose prompt has ten tokens for each message; its template wants the user first."""

    def __init__(self, max_context=100):
        super().__init__(max_context=max_context)
        self.batches = [[(0, said("Hi", "stop"))]]

    def prepare(self, generation, *args, **more):
        call = super().prepare(generation, *args, **more)
        roles = [message["role"] for message in generation.messages if message["role"] not in ("system",)]
        if roles[0] != "user":
            raise RequestError("the user speaks first", "messages")
        call.prompt_lengths = [10 * len(generation.messages)]
        if call.prompt_lengths[0] >= self.max_context:
            raise ContextTooLong("too long", "messages")
        return call

    @property
    def texts(self):
        """What the last request said."""
        contents = [message["content"] for message in self.asked.messages]
        return [content if isinstance(content, str) else content[0]["text"] for content in contents]


def turns(number):
    """A conversation of so many turns, each with a question and an answer but for the last."""
    spoken = [
        {"role": role, "content": f"{role[0]}{n}"} for n in range(number) for role in ("user", "assistant")
    ]
    return spoken[:-1]


@every_case(
    ("number", "limit", "kept"),
    [
        (2, 40, ["s", "u0", "a0", "u1"]),  # all fit
        (4, 40, ["s", "u1", "a1", "u2", "a2", "u3"]),  # 60 and 40 are 100
        (6, 30, ["s", "u3", "a3", "u4", "a4", "u5"]),
        (6, 90, ["s", "u4", "a4", "u5"]),  # half of the context is for what was said
        (6, None, ["s", "u3", "a3", "u4", "a4", "u5"]),  # a quarter of it
    ],
)
def test_a_response_has_room(make_rig, number, limit, kept):
    rig = make_rig(TenTokensEach())
    body = {"model": "tiny", "instructions": "s", "input": turns(number), "truncation": "auto"}
    answer = rig.post("/v1/responses", body | ({"max_output_tokens": limit} if limit else {}))
    assert (answer.status, answer.json["status"]) == (200, "completed"), answer.body
    assert rig.pipeline.texts == kept
    assert rig.pipeline.asked.truncate_prompt_tokens is None
    assert len(rig.pipeline.calls) <= 6


def test_without_truncation_a_long_conversation_is_refused(make_rig):
    answer = make_rig(TenTokensEach()).post("/v1/responses", {"model": "tiny", "input": turns(6)})
    assert (answer.status, answer.error["param"]) == (400, "input")


def test_what_cannot_be_shortened_is_asked_as_it_is_or_refused(make_rig):
    """A prompt that leaves too little room has what room there is; one that leaves none is cut, if it can be."""
    for max_context, status, cut in ((12, 200, None), (10, 400, -1)):
        rig = make_rig(TenTokensEach(max_context))
        answer = rig.post("/v1/responses", {"model": "tiny", "input": "hi", "truncation": "auto"})
        assert answer.status == status, answer.body
        assert rig.pipeline.asked.truncate_prompt_tokens == cut


def test_a_long_turn_of_an_agent_loses_its_first_calls(make_rig):
    work = [{"role": "user", "content": "fix it"}]
    for n in range(8):
        call = {"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"}
        work += [call, {"type": "function_call_output", "call_id": f"c{n}", "output": f"r{n}"}]
    rig = make_rig(TenTokensEach())
    answer = rig.post("/v1/responses", {"model": "tiny", "input": work, "truncation": "auto"})
    assert answer.status == 200, answer.body
    messages = rig.pipeline.asked.messages
    assert [message["role"] for message in messages] == ["user", *["assistant", "tool"] * 3]
    calls = [message["tool_calls"][0]["id"] for message in messages if message["role"] == "assistant"]
    results = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert calls == results == ["c5", "c6", "c7"]


def test_an_error_names_the_item_that_was_sent(make_rig):
    """Also where messages before it are left out."""
    bad = {"role": "user", "content": [{"type": "input_video"}]}
    rig = make_rig(TenTokensEach())
    body = {"model": "tiny", "input": [*turns(6), bad], "truncation": "auto"}
    assert rig.post("/v1/responses", body).error["param"].startswith("input.11.content.0")


async def talked(app, number, session):
    """How a response ends in a conversation of so many turns."""
    async with AsgiSocket(app, "/v1/realtime?model=tiny") as socket:
        socket.say(
            {"type": "session.update", "session": {"type": "realtime", "instructions": "s", **session}}
        )
        for message in turns(number):
            kind = "input_text" if message["role"] == "user" else "output_text"
            parts = [{"type": kind, "text": message["content"]}]
            item = {"type": "message", "role": message["role"], "content": parts}
            socket.say({"type": "conversation.item.create", "item": item})
        socket.say({"type": "response.create"})
        return (await socket.until("response.done"))[-1]["response"]


@pytest.mark.parametrize(
    ("session", "kept"),
    [
        ({}, ["s", "u3", "a3", "u4", "a4", "u5"]),
        ({"max_output_tokens": 60}, ["s", "u4", "a4", "u5"]),
        ({"truncation": "disabled"}, None),
    ],
)
def test_a_conversation_has_room(make_rig, session, kept):
    rig = make_rig(TenTokensEach())
    done = rig.run(lambda client: talked(rig.app, 6, session))
    if kept is None:
        assert done["status_details"]["error"]["code"] == "context_length_exceeded"
        return
    assert done["status"] == "completed", done
    assert rig.pipeline.texts == kept
