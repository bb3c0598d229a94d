"""What a real host with a real cache shows to a worker over a socket, while it generates."""

from __future__ import annotations

import asyncio

import pytest
from fake_decoder import write_fake_model
from patience import PATIENCE_S, until
from scripted_host import read, submit
from served_models import in_one_process, over_a_socket

from pipelines.host import host_view
from pipelines.wire.engine_view import FREE, REUSABLE, SHARED


@pytest.fixture(params=[in_one_process, over_a_socket], ids=["in process", "socket"])
def over(request, tmp_path, monkeypatch):
    monkeypatch.setattr(host_view, "REUSE_S", 0.0)
    write_fake_model(tmp_path / "models" / "m", vocab_size=50, max_context=4096)
    return lambda scene: request.param(scene, tmp_path / "models")


async def node_of(client):
    (view,) = await client.inspect("m")
    (node,) = view.nodes
    return node


async def running(client, num):
    async with asyncio.timeout(PATIENCE_S):
        while (node := await node_of(client)).running < num or not node.sequences[-1].output_tokens:
            pass
    return node


def test_the_cache_of_requests_in_flight_and_of_those_before(over):
    async def scene(client, catalogue):
        await read(submit(client, prompts=[[7] * 200], max_tokens=1)[1])
        before = await node_of(client)
        submit(client, prompts=[list(range(40))], max_tokens=4000, name="a")
        submit(client, prompts=[[9] * 60], max_tokens=4000, n=2, name="b")
        during = await running(client, 3)
        num_cancelled = await client.cancel("b")
        await until(lambda: client.num_in_flight == 1)
        return before, during, num_cancelled, await node_of(client)

    before, during, num_cancelled, after = over(scene)
    assert (before.running, before.sequences) == (0, [])
    assert (before.blocks.used, before.blocks.reusable) == (0, 200 // before.blocks.block_tokens)
    assert before.blocks.free == before.blocks.total - before.blocks.reusable
    assert {owner for _, owner in before.block_map} == {FREE, REUSABLE}
    assert sorted((sequence_view.name, sequence_view.choice) for sequence_view in during.sequences) == [
        ("a", 0),
        ("b", 0),
        ("b", 1),
    ]
    for node in (before, during, after):
        owned = [0] * len(node.sequences)
        for length, owner in node.block_map:
            if owner >= 0:
                owned[owner] += length
        shared = sum(length for length, owner in node.block_map if owner == SHARED)
        assert sum(length for length, _ in node.block_map) == node.blocks.total
        assert sum(owned) + shared == node.blocks.used
        assert all(
            0 <= sequence_view.blocks - own <= shared
            for sequence_view, own in zip(node.sequences, owned, strict=True)
        )
    assert shared == 0
    assert (num_cancelled, [sequence_view.name for sequence_view in after.sequences]) == (1, ["a"])


def test_the_history_and_the_phases_of_what_was_generated(over):
    async def scene(client, catalogue):
        await read(submit(client, prompts=[[7] * 100], max_tokens=50)[1])
        async with asyncio.timeout(PATIENCE_S):
            while not (history := (view := (await client.inspect("m"))[0]).history) or (
                sum(history.series["output_tokens"]) < 50  # a sample may have been due before the end
            ):
                await asyncio.sleep(0.05)
        return view, await client.profile("m")

    view, profile = over(scene)
    series = view.history.series
    assert (sum(series["prompt_tokens"]), sum(series["output_tokens"])) == (100, 50)
    assert (view.totals.prompt_tokens, view.totals.output_tokens) == (100, 50)
    assert min(series["resident_bytes"]) > 10**6
    steps = {kind_times.kind: kind_times for kind_times in profile.engines["generated"]}
    assert {phase.kind for phase in view.nodes[0].phases} == steps.keys()
    for phase_view in view.nodes[0].phases:
        assert (phase_view.steps, phase_view.recent_steps) == (
            steps[phase_view.kind].steps,
            steps[phase_view.kind].steps,
        )
        (known,) = (phase for phase in steps[phase_view.kind].phases if phase.name == phase_view.name)
        assert (phase_view.node, phase_view.seconds, phase_view.recent_s) == (
            known.node,
            known.seconds,
            pytest.approx(phase_view.seconds),
        )
    assert "body.logits" in {phase.name for phase in view.nodes[0].phases}
