"""A model that says what a script gives for each turn, behind the real template, grammar, parser and wire."""

from __future__ import annotations

import asyncio

import pytest
from scripted_model import call, serving, write_scripted_model

from pipelines.inference.backends.open_model import open_decoder
from pipelines.inference.backends.scripted_decoder import ScriptedSession
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.repository.new_graph import recognise

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = {"type": "function", "function": {"name": "read_file", "description": "Reads", "parameters": PATH}}
REPLIES = [
    "I read it." + call("read_file", path="añ.txt"),
    ("forty-two", "<think>\nIt is a number.\n</think>\n\nIt says 42."),
    call("delete_file", path="a.txt"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_scripted_model(folder / "scripted", REPLIES)
    return folder


def talk(folder, *results):
    """The assistant's messages and the usage of a conversation with these results of tools."""

    async def scene():
        messages, usages = [{"role": "user", "content": "What is in it?"}], []
        async with serving(folder) as client:
            for result in [*results, None]:
                body = {"model": "scripted", "messages": messages, "tools": [READ], "max_tokens": 200}
                answer = await client.post("/v1/chat/completions", body)
                assert answer.status == 200, answer.body
                usages.append(answer.json["usage"])
                messages.append(answer.json["choices"][0]["message"])
                if result is not None:
                    call_id = messages[-1]["tool_calls"][0]["id"]
                    messages.append({"role": "tool", "tool_call_id": call_id, "content": result})
        return [message for message in messages if message["role"] == "assistant"], usages

    return asyncio.run(scene())


def test_each_turn_has_its_reply(folder):
    (first, second), usages = talk(folder, "forty-two")
    assert first["content"] == "I read it."
    assert first["tool_calls"][0]["function"] == {"name": "read_file", "arguments": '{"path": "añ.txt"}'}
    assert (second["reasoning"], second["content"].strip()) == ("It is a number.", "It says 42.")
    cached = usages[1]["prompt_tokens_details"]["cached_tokens"]
    assert usages[0]["prompt_tokens"] - 32 < cached < usages[1]["prompt_tokens"]


def test_a_grammar_holds_what_the_script_wants(folder):
    """The second turn calls a tool that was not declared: the grammar of calls lets no such name through."""

    async def scene():
        messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        body = {"model": "scripted", "messages": [*messages, messages[0]], "tools": [READ], "max_tokens": 30}
        async with serving(folder) as client:
            answer = await client.post("/v1/chat/completions", body)
        assert answer.status == 200, answer.body
        return [
            tool_call["function"]["name"] for tool_call in answer.json["choices"][0]["message"]["tool_calls"]
        ]

    assert asyncio.run(scene()) in ([], ["read_file"])


def test_a_script_runs_only_on_the_device_fake(folder, tmp_path):
    path = folder / "scripted" / "replies.script"
    assert isinstance(open_decoder(path, DecoderSettings(device="fake")), ScriptedSession)
    with pytest.raises(ModelError):
        open_decoder(path, DecoderSettings(device="cpu"))
    own = write_scripted_model(tmp_path / "own", ["x"])
    (own / "graph.yaml").unlink()
    assert recognise(own) is None, "no graph is written for it"


def test_a_damaged_script_is_named(folder, tmp_path):
    path = tmp_path / "replies.script"
    path.write_text('{"replies": [{"txt": "x"}]}')
    with pytest.raises(ModelError, match="replies.script is no script of replies"):
        open_decoder(path, DecoderSettings(device="fake"))
