"""Calls of guards, cascades and joins that end in the middle: everything is freed, and nothing is left running."""

from __future__ import annotations

import asyncio

import pytest
from composed_models import chat, serving, texts
from fake_decoder import FAKE_GRAPH, write_fake_model
from fake_encoder import FAKE_BATCHER, use_fake_encoders, write_fake_encoder
from patience import PATIENCE_S, until
from test_composed_call import blocks_used

from pipelines.base.errors import EngineError, RequestError
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


def test_a_refused_choice_is_stopped_while_the_others_run_on(models, monkeypatch):
    judged = []

    async def refuses_the_first(self, call, texts, conversation):
        judged.append(texts[-1])
        return "glad" if len(judged) == 1 else None

    monkeypatch.setattr(Judge, "fault", refuses_the_first)

    async def scene(catalogue, client):
        call = catalogue.get("guard").open(chat("Hi", n=2, sampling={"ignore_eos": True}), client)
        ended, going = set(), 0
        async for batch in call.updates():
            ended |= {choice for choice, update in batch if update.piece.finish == "content_filter"}
            going += len([choice for choice, _ in batch if choice not in ended])
            if going > 3 and running(client, "held") == 1:
                break
        assert len(ended) == 1
        call.close()
        await until(lambda: blocks_used(client, "held") == 0)

    run(models, lambda *of: asyncio.wait_for(scene(*of), PATIENCE_S))


def running(client, name):
    """Sequences of a model that run."""
    held = [each for each in client.host._instances if each.folder.name == name]
    return sum(engine.counts().running for each in held for engine in each.model.engines.values())


def test_a_cascade_does_not_go_around_a_guard(models):
    lines = {"guarded": "guard, graph: tiny, by: moods, labels: [glad], threshold: 0.000001"}
    lines["said"] = lines["guarded"] + ", refusal: No"
    for name in ("guarded", "said"):
        lines[f"over_{name}"] = f"cascade, graph: {name}, larger: tiny, at_least: -9"
    for name, line in lines.items():
        (models / name).mkdir()
        (models / name / "graph.yaml").write_text(
            f"version: 1\ntask: chat\nnodes:\n  reply: {{type: {line}, from: request}}\n"
        )

    async def scene(catalogue, client):
        with pytest.raises(RequestError, match="the request was refused: glad"):
            await texts(catalogue.get("over_guarded"), chat("Hi"), client)
        assert (await texts(catalogue.get("over_said"), chat("Hi"), client))[0] == {0: "No"}

    run(models, scene)


def test_a_call_that_is_closed_while_it_is_judged_ends_without_a_word(models, monkeypatch):
    opened, judged = [], Judge.fault

    async def closing(self, *looked_at):
        opened[0].close()
        return await judged(self, *looked_at)

    monkeypatch.setattr(Judge, "fault", closing)

    async def scene(catalogue, client):
        opened.append(catalogue.get("guard").open(chat("Hi", sampling={"ignore_eos": True}), client))
        async with asyncio.timeout(PATIENCE_S):
            seen = [update async for batch in opened[0].updates() for _, update in batch]
        assert not [update for update in seen if update.content or update.piece.finish]

    run(models, scene)
