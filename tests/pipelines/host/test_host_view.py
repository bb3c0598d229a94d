"""What a host shows of itself to workers: the requests in flight, its process, the records of the last ones."""

from __future__ import annotations

import asyncio
import os

import pytest
from patience import until
from scripted_host import connected, over, submit

from pipelines.host import host_view
from pipelines.telemetry.request_record import NUM_ERRORS, NUM_REQUESTS, ErrorRecord, RequestRecord


@pytest.fixture(autouse=True)
def fresh_snapshots(monkeypatch):
    monkeypatch.setattr(host_view, "REUSE_S", 0.0)


def record(number):
    return RequestRecord(f"r{number}", float(number), "/v1/completions", "m", 200, "stop", 0.5)


def failure(number):
    return ErrorRecord(f"e{number}", float(number), 500, "/v1/completions", None, "broken")


def test_requests_in_flight_are_shown_by_their_names(running_host):
    async def scene(client):
        submit(client, max_tokens=10**9, name="one", n=2)
        _, queue = submit(client, max_tokens=10**9, name="two")
        await queue.get()
        (view,) = await client.inspect("m")
        return view, client.status.models[0].instance_id

    view, instance = over(running_host, scene)
    (node,) = view.nodes
    assert (node.node, node.kind, node.instance_id) == ("generated", "generation", instance)
    assert (node.running, node.waiting, node.swapped, node.blocks, node.block_map) == (3, 0, 0, None, None)
    assert [
        (sequence_view.name, sequence_view.choice, sequence_view.state) for sequence_view in node.sequences
    ] == [*(("one", 0, "running"), ("one", 1, "running"), ("two", 0, "running"))]
    assert node.opened == {"logits": {"engine": "scripted generated"}}
    assert node.sequences[2].output_tokens > 0
    assert all(sequence_view.age_s > 0 for sequence_view in node.sequences)
    assert [(load.name, load.running, load.waiting) for load in view.models] == [("m", 3, 0)]


def test_the_process_is_the_host_s_own(running_host):
    async def scene(client):
        return await client.inspect("m")

    (view,) = over(running_host, scene)
    assert (view.state, view.engine, view.process.pid) == ("ready", "0", os.getpid())
    assert view.process.resident_bytes > 10**6
    assert view.process.cpu_seconds > 0


def test_a_model_that_is_not_there_has_no_nodes(running_host):
    async def scene(client):
        return await client.inspect("other")

    (view,) = over(running_host, scene)
    assert view.nodes == []
    assert [load.name for load in view.models] == ["m"]


def test_a_snapshot_is_the_reply_to_all_who_ask_in_a_second(running_host, monkeypatch):
    monkeypatch.setattr(host_view, "REUSE_S", 3600.0)

    async def scene(client):
        before = await client.inspect("m")
        submit(client, max_tokens=10**9)
        async with connected(running_host.path) as other:
            return before, await other.inspect("m"), await client.inspect("not there")

    before, after, elsewhere = over(running_host, scene)
    assert (before[0].nodes, before[0].models) == (after[0].nodes, after[0].models)
    assert elsewhere[0].models[0].running == 1


def test_records_of_all_workers_are_merged_newest_first_and_bounded(running_host):
    async def scene(client):
        async with connected(running_host.path) as other:
            client.report([record(number) for number in range(0, 200, 2)], [failure(0)])
            other.report([record(number) for number in range(1, 200, 2)], [failure(n) for n in range(1, 80)])
            await until_shown(client, "r199")
            await until_shown(other, "r198")
            return await other.inspect("m")

    (view,) = over(running_host, scene)
    assert [request.id for request in view.requests] == [f"r{number}" for number in range(199, 99, -1)]
    assert [error.id for error in view.errors] == [f"e{number}" for number in range(79, 29, -1)]
    assert (len(view.requests), len(view.errors)) == (NUM_REQUESTS, NUM_ERRORS)


async def until_shown(client, name):
    while name not in {one.id for (view,) in [await client.inspect("m")] for one in view.requests}:
        await asyncio.sleep(0.001)


def test_a_worker_that_connects_again_reports_again_and_each_is_shown_once(running_host):
    async def scene(client):
        client.report([record(1)], [])
        await until_shown(client, "r1")
        client._link.close()
        await until(lambda: client.status is None)
        client.report([record(2)], [failure(1)])  # no host hears this
        await until(lambda: client.status is not None)
        await until_shown(client, "r2")
        return await client.inspect("m")

    (view,) = over(running_host, scene)
    assert [request.id for request in view.requests] == ["r2", "r1"]
    assert [error.id for error in view.errors] == ["e1"]
