"""Calls of guards, cascades and joins that end in the middle: everything is freed, and nothing is left running."""

from __future__ import annotations

import asyncio

import pytest
from composed_models import chat, serving
from fake_decoder import FAKE_GRAPH, write_fake_model
from fake_encoder import FAKE_BATCHER, use_fake_encoders, write_fake_encoder
from patience import PATIENCE_S, until
from test_composed_call import blocks_used

from pipelines.base.errors import EngineError
from pipelines.nodes.composing.judge import Judge

JUDGE = FAKE_BATCHER.replace("task: embed", "task: classify") + (
    "  classes: {type: label, from: rows, labels: labels.json}\n"
)
LINES = {
    "guard": "type: guard, graph: held, by: moods, labels: [glad], threshold: 1, checks: [reply], every: 1",
    "cascade": "type: cascade, graph: held, larger: tiny, at_least: -9",
    "join": "type: join, graphs: [tiny, held], how: majority",
}


def run(models, scene):
    """Runs a scene with the catalogue and the client of one engine host."""

    async def whole():
        async with serving(models) as (client, catalogue):
            await scene(catalogue, client)

    asyncio.run(whole())


@pytest.fixture
def models(tmp_path, monkeypatch):
    use_fake_encoders(monkeypatch)
    write_fake_model(tmp_path / "tiny")
    plain = FAKE_GRAPH.replace(", reasoning: qwen3, tools: hermes", "")
    write_fake_model(tmp_path / "held", plain, step_s=0.002, max_context=1 << 20)
    write_fake_encoder(tmp_path / "moods", JUDGE, size=2)
    (tmp_path / "moods" / "labels.json").write_text('["sad", "glad"]')
    for name, line in LINES.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "graph.yaml").write_text(
            f"version: 1\ntask: chat\nnodes:\n  reply: {{{line}, from: request}}\n"
        )
    return tmp_path


@pytest.mark.parametrize("name", LINES)
def test_a_closed_call_frees_all_that_it_asked(models, name):
    async def scene(catalogue, client):
        call = catalogue.get(name).open(chat("Hi", sampling={"ignore_eos": True}), client)
        reading = asyncio.create_task(anext(call.updates(), None))
        await until(lambda: blocks_used(client, "held") > 0)
        call.close()
        assert await reading is None or name == "guard"
        await until(lambda: blocks_used(client, "held") == blocks_used(client, "tiny") == 0)
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith(("line", "compose"))]

    run(models, scene)


def test_what_was_not_judged_is_not_sent(models, monkeypatch):
    async def fails(self, call, texts, conversation):
        raise EngineError("the judge is gone")

    monkeypatch.setattr(Judge, "fault", fails)

    async def scene(catalogue, client):
        call = catalogue.get("guard").open(chat("Hi", sampling={"ignore_eos": True}), client)
        read = []

        async def reading():
            async for batch in call.updates():
                read.extend(update.content for _, update in batch)

        with pytest.raises(EngineError, match="line `reply`: the judge is gone"):
            await asyncio.wait_for(reading(), PATIENCE_S)
        assert "".join(read) == ""
        call.close()
        await until(lambda: blocks_used(client, "held") == 0)

    run(models, scene)


def test_a_call_that_is_closed_while_it_is_judged_ends_without_a_word(models):
    async def scene(catalogue, client):
        call = catalogue.get("guard").open(chat("Hi", sampling={"ignore_eos": True}), client)
        read = []

        async def reading():
            async for batch in call.updates():
                read.append(batch)

        task = asyncio.create_task(reading())
        await until(lambda: [asked for asked in call.asked if asked.model == "moods"])
        call.close()
        await asyncio.wait_for(task, PATIENCE_S)
        assert not [
            update for batch in read for _, update in batch if update.piece.finish == "content_filter"
        ]

    run(models, scene)
