"""Requests that another client cancels, by the id of the HTTP request: each ends where it was sent from."""

from __future__ import annotations

from patience import until
from scripted_host import connected, over, read, submit


def test_all_choices_end_as_aborted_and_the_engine_is_free(running_host, repository):
    async def scene(client):
        _, queue = submit(client, max_tokens=10**9, prompts=[[1], [2]], n=2, name="mine")
        await queue.get()
        async with connected(running_host.path) as other:
            num_cancelled = await other.cancel("mine")
        return num_cancelled, await read(queue), client.num_in_flight

    num_cancelled, (tokens, finish), in_flight = over(running_host, scene)
    assert (num_cancelled, in_flight) == (1, 0)
    assert finish == dict.fromkeys(range(4), "abort")
    assert all(ids == list(range(ids[0], ids[-1] + 1)) for ids in tokens.values() if ids)
    assert not repository.engine.live


def test_several_of_one_name_end_and_those_of_others_go_on(running_host):
    async def scene(client):
        async with connected(running_host.path) as other:
            mine = [
                submit(connection, max_tokens=10**9, name="mine")[1] for connection in (client, other, client)
            ]
            _, yours = submit(client, max_tokens=30, name="yours")
            _, nameless = submit(client, max_tokens=30)
            await mine[1].get()
            await until(lambda: client.num_in_flight >= 2)
            num_cancelled = await client.cancel("mine")
            ends = [await read(queue) for queue in (*mine, yours, nameless)]
            return num_cancelled, [finish for _, finish in ends]

    num_cancelled, finishes = over(running_host, scene)
    assert num_cancelled == 3
    assert finishes == [{0: "abort"}] * 3 + [{0: "length"}] * 2


def test_a_choice_that_has_ended_does_not_end_again(running_host, repository):
    async def scene(client):
        request_id, queue = submit(client, max_tokens=10**9, n=2, name="mine")
        client.abort(request_id, 0)
        await until(lambda: any(len(choices) == 1 for choices in repository.engine.live.values()))
        await client.cancel("mine")
        return await read(queue)

    _, finish = over(running_host, scene)
    assert finish[1] == "abort"
    assert finish.get(0) is None


def test_nothing_in_flight_is_nothing_cancelled(running_host):
    async def scene(client):
        _, queue = submit(client, name="mine")
        await read(queue)
        submit(client, max_tokens=10**9)
        return [await client.cancel(name) for name in ("mine", "other", "")]

    assert over(running_host, scene) == [0, 0, 0]


def test_an_account_cancels_its_own_alone(running_host):
    """Two accounts may choose one id; the requests of an account's batches are its own too."""

    async def scene(client):
        tenants = "ann", "batch ann", "ben"
        queues = [submit(client, max_tokens=10**9, name="mine", tenant=tenant)[1] for tenant in tenants]
        await queues[0].get()
        counts = [await client.cancel("mine", account) for account in ("cid", "ann", None)]
        return counts, [(await read(queue))[1] for queue in queues]

    counts, finishes = over(running_host, scene)
    assert counts == [0, 2, 1]
    assert finishes == [{0: "abort"}] * 3
