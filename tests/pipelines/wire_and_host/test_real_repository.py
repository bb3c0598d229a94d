"""A host that builds real graphs: the fake decoder in a folder, as the repository finds it."""

from __future__ import annotations

import asyncio
import json

import pytest
from wire_scene import read, submit, until

from pipelines.host.announce import chat_model
from pipelines.host.inprocess import InProcessClient

CHAT = """\
version: 1
task: chat
nodes:
  prompt: {type: chat_template, template: chat_template.jinja}
  tokens: {type: tokenize, from: prompt, tokenizer: tokenizer.json}
  generated:
    type: scheduler
    from: tokens
    cache: {memory_gb: 0.0001}
    body:
      logits: {type: model, from: step, path: fake.json, device: fake}
      next: {type: sampler, from: logits}
  text: {type: detokenize, from: generated, tokenizer: tokenizer.json}
  reply: {type: parse_reply, from: text}
"""


@pytest.fixture
def models(tmp_path):
    """One model that serves and one folder that cannot be read."""
    good = tmp_path / "good"
    good.mkdir()
    (good / "graph.yaml").write_text(CHAT)
    (good / "chat_template.jinja").write_text("{{ messages[0].content }}")
    (good / "tokenizer.json").write_text("{}")
    (good / "fake.json").write_text(json.dumps({"vocab_size": 50, "block_tokens": 4, "max_context": 64}))
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "graph.yaml").write_bytes(b"task: \xff")
    return tmp_path


def served(models, scene):
    async def run():
        client = InProcessClient(models)
        await client.start()
        try:
            await until(lambda: client.status is not None and client.status.state == "ready")
            return await scene(client)
        finally:
            await client.close()

    return asyncio.run(run())


def entry(client, name):
    return next(model for model in client.status.models if model.name == name)


def test_model_from_a_folder_generates(models):
    async def scene(client):
        return await read(submit(client, model="good", load=entry(client, "good").load, max_tokens=9)[1])

    tokens, finish = served(models, scene)
    assert len(tokens[0]) == 9
    assert finish == {0: "length"}


def test_unreadable_folder_troubles_no_other(models):
    async def scene(client):
        return entry(client, "bad"), entry(client, "good")

    bad, good = served(models, scene)
    assert (bad.state, good.state) == ("failed", "ready")
    assert "not readable" in bad.problems[0]


def test_chat_model_is_found_for_the_banner(models):
    async def scene(client):
        return chat_model(client.status)

    assert served(models, scene) == "good"
