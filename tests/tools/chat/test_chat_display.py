"""What `braid chat` makes of the pieces of a reply."""

from __future__ import annotations

import pytest

from tools.chat.conversation import Conversation, Reply
from tools.chat.display import Plain, Terminal
from tools.chat.streamed_reply import read_reply
from tools.client.api_server import ApiServer
from tools.client.http_client import RequestFailed, error_message


def delta(**fields):
    return {"choices": [{"index": 0, "delta": fields}]}


def call(index, **fields):
    return delta(tool_calls=[{"index": index, **fields}])


def test_pieces_become_one_reply(capsys):
    reply = Reply()
    events = [
        delta(role="assistant", reasoning="hm"),
        delta(content="It "),
        delta(content="is."),
        call(0, id="a", function={"name": "f", "arguments": ""}),
        call(0, function={"arguments": "{}"}),
        call(1, id="b", function={"name": "g", "arguments": "[]"}),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": {"completion_tokens": 5}},
    ]
    read_reply(events, reply, Plain())
    assert (reply.content, reply.finish_reason, reply.usage) == (
        "It is.",
        "tool_calls",
        {"completion_tokens": 5},
    )
    functions = [(call_shown["id"], call_shown["function"]) for call_shown in reply.calls]
    assert functions == [("a", {"name": "f", "arguments": "{}"}), ("b", {"name": "g", "arguments": "[]"})]
    assert capsys.readouterr().out == "It is.\n→ f {}\n→ g []"


def test_a_model_cannot_move_the_cursor(capsys):
    display = Terminal()
    display.content("a\x1b[2Jb\x07[red]c[/red]\r\x9bd")
    display.end()
    assert capsys.readouterr().out == "a[2Jb[red]c[/red]d\n"


def test_a_request_has_system_prompt_tools_and_fields():
    conversation = Conversation("m", "Be short.", [{"type": "function"}], {"top_k": 3})
    conversation.say("hi")
    conversation.add(Reply("hello"))
    body = conversation.body()
    assert [each["role"] for each in body["messages"]] == ["system", "user", "assistant"]
    assert (body["top_k"], body["tools"]) == (3, [{"type": "function"}])


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("127.0.0.1:9", "http://127.0.0.1:9/v1"),
        ("http://a.example/", "http://a.example/v1"),
        ("https://a.example/openai/v1/", "https://a.example/openai/v1"),
    ],
)
def test_an_address_without_a_path_gets_v1(url, base):
    assert ApiServer(url).url == base


def test_what_is_no_address_is_refused():
    with pytest.raises(ValueError, match="is no address of a server"):
        ApiServer("ftp://a.example")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "no"}}', "400: no"),
        (b'{"message": "no"}', "400: no"),
        (b'{"detail": "no"}', "400: no"),
        (b'{"error": "no"}', "400: no"),
        (b"<html>", "400: <html>"),
        (b"", "400: Bad Request"),
    ],
)
def test_errors_of_several_servers_are_read(body, message):
    assert error_message(400, body) == message


def test_a_server_that_is_not_there_is_named():
    with pytest.raises(RequestFailed, match="no reply of http://127.0.0.1:1/v1"):
        ApiServer("http://127.0.0.1:1").get("/models")
