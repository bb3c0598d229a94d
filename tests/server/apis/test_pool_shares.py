"""What all keys share has shares: one key cannot evict, fill or hold what others need."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from batch_bodies import CHAT, form, line, lines, upload
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import PATIENCE_S, until
from responses.responses_bodies import PATH, ask
from scripted import HI

from server.apis.batches.batch_models import Batch
from server.apis.batches.database import MAX_BATCHES, OfflineDatabase, OfflineLimits
from server.apis.batches.files.file_table import StoredFile
from server.apis.batches.files_endpoint import MAX_UPLOADS
from server.apis.responses.database import ResponseDatabase, StoreLimits
from server.apis.responses.sqlite_tables import StoredResponse
from server.sqlite.connection import MAX_LOG_BYTES
from server.status.feed import MAX_WATCHERS

KEYS = ("ann", "ben", "cid")
ANN, BEN, CID = ({"x_api_key": key} for key in KEYS)


@pytest.fixture
def rig(make_rig, tmp_path):
    def make(**settings):
        files = {"files": tmp_path / "files", "responses_file": tmp_path / "responses.sqlite"}
        return make_rig(**files, **{"api_keys": KEYS, **settings})

    return make


def large(num_bytes=200_000):
    """A request that costs few tokens and is stored with many bytes."""
    tool = {"type": "function", "name": "f", "description": "x" * num_bytes, "parameters": {}}
    return ask(tools=[tool], tool_choice="none")


def test_the_responses_of_one_key_evict_its_own(rig, tmp_path):
    async def scenario(client):
        first = (await client.post(PATH, ask(), **BEN)).json["id"]
        responses = [(await client.post(PATH, large(), **ANN)).json for _ in range(12)]
        size = sum(path.stat().st_size for path in tmp_path.glob("responses.sqlite*"))
        read = (await client.get(f"{PATH}/{first}", **BEN)).status
        continued = (await client.post(PATH, ask(previous_response_id=first), **BEN)).status
        own = [
            (await client.get(f"{PATH}/{created_response['id']}", **ANN)).status
            for created_response in responses
        ]
        return responses, size, read, continued, own

    created, size, read, continued, own = rig(responses_mb=1).run(scenario)
    assert all(created_response["store"] for created_response in created)
    assert (read, continued) == (200, 200)
    assert own == sorted(own, reverse=True)  # the oldest are 404
    assert 3 <= own.count(200) <= 5
    assert size < (1 << 20) * 1.2 + MAX_LOG_BYTES + (1 << 20)  # the file, its log, its index


def test_ids_of_items_count_among_the_bytes(rig, tmp_path):
    """A client chooses them: each is stored beside its item, in a table and in an index."""

    async def scenario(client):
        for number in range(10):
            item = {"role": "user", "id": f"msg_{number}" + "x" * 60_000, "content": "hi"}
            await client.post(PATH, ask(input=[item]), **ANN)
        return (tmp_path / "responses.sqlite").stat().st_size

    assert rig(responses_mb=1).run(scenario) < (1 << 20) * 1.2


def test_one_response_takes_at_most_half_of_the_store(rig):
    async def scenario(client):
        await client.post(PATH, ask(), **ANN)
        answer = await client.post(PATH, large(600_000), **ANN)
        background = await client.post(PATH, large(600_000) | {"background": True}, **ANN)
        return answer, background

    answer, background = rig(responses_mb=1).run(scenario)
    assert (answer.json["store"], background.status) == (False, 507)
    assert "more than half of BRAID_RESPONSES_MB" in answer.headers["x-braid-not-stored"]


def test_running_responses_of_one_key_leave_room(rig):
    running = rig(responses_mb=1)
    running.pipeline.batches = ["forever"]

    async def scenario(client):
        body = large(100_000) | {"background": True}
        ann = await asyncio.gather(*[client.post(PATH, body, **ANN) for _ in range(12)])
        statuses = sorted(answer.status for answer in ann)
        running.pipeline.batches = HI
        ben = await client.post(PATH, ask(), **BEN)
        kept = (await client.get(f"{PATH}/{ben.json['id']}", **BEN)).status
        for answer in ann:
            if answer.status == 200:
                await client.post(f"{PATH}/{answer.json['id']}/cancel", {}, **ANN)
        return statuses, ben.json["store"], kept

    statuses, stored, kept = running.run(scenario)
    assert statuses == [200, 200] + [507] * 10  # each grows by its events
    assert (stored, kept) == (True, 200)


ADDS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 400)), max_size=40)
LIMITS = StoreLimits(max_count=12, max_bytes=1200, max_age_s=1e9, share=0.8)


@settings(max_examples=150, deadline=None)
@given(adds=ADDS)
def test_who_has_a_fair_part_loses_nothing(adds):
    """Whatever others add."""
    clock = count(1)
    store = ResponseDatabase(None, LIMITS, lambda: float(next(clock)), lambda: 1.0)
    added: dict[str, list[tuple[str, int]]] = {name: [] for name in "abc"}
    for number, (account, num_bytes) in enumerate(adds):
        stored = StoredResponse(f"r{number}", "completed", b"x" * num_bytes, b"", account=account)
        assert store.add(stored)
        added[account].append((stored.id, num_bytes))
    for account in "abc":
        held = added[account]
        if len(held) <= 4 and sum(size for _, size in held) <= 400:
            assert all(store.get(name, account) for name, _ in held)
    number, size = store._db.execute("SELECT count(*), coalesce(sum(size), 0) FROM responses").fetchone()
    assert size <= LIMITS.max_bytes
    shares = store._db.execute("SELECT sum(number), coalesce(sum(size), 0) FROM shares").fetchone()
    assert (number or None, size) == shares
    store.close()


@pytest.mark.parametrize(("keys", "most"), [(KEYS, 8), ((), 10), (("ann",), 10)])
def test_files_of_one_key_leave_room_for_others(rig, keys, most):
    async def scenario(client):
        ann = [await upload(client, b"{}", **{"x-api-key": "ann"}) for _ in range(11)]
        others = [await upload(client, b"{}", **{"x-api-key": key}) for key in ("ben", "cid")]
        return ann, [answer.status for answer in others]

    ann, others = rig(files_count=10, api_keys=keys).run(scenario)
    assert [answer.status for answer in ann] == [200] * most + [429] * (11 - most)
    assert "of this API key" in ann[-1].error["message"]
    assert others == ([200, 200] if len(keys) == 3 else [429, 429] if not keys else [401, 401])


def test_bytes_of_one_key_leave_room_for_others(rig):
    data = b"x" * 100_000

    async def scenario(client):
        ann = [(await upload(client, data, **{"x-api-key": "ann"})).status for _ in range(11)]
        return ann, (await upload(client, data, **{"x-api-key": "ben"})).status

    ann, ben = rig(files_mb=1).run(scenario)
    assert (ann, ben) == ([200] * 9 + [429] * 2, 200)


def test_results_of_one_key_end_its_own_batches_alone(tmp_path):
    store = OfflineDatabase(tmp_path / "db", OfflineLimits(100, 1000, 9, 0.8))
    for account, size in (("ann", 850), ("ben", 10)):
        store.add_file(StoredFile(f"file-{account}", account, "batch", "in", size, 0.0, 9e9))
    assert (store.is_over_share("ann"), store.is_over_share("ben")) == (True, False)
    store.close()


def test_uploads_of_one_key_leave_places(rig):
    body, headers = form(b"x" * 1000)

    async def scenario(client):
        sent = {**headers, "x-api-key": "ann"}
        slow = [
            client.begin("POST", "/v1/files", [body[:200]], sent, stalls=True) for _ in range(MAX_UPLOADS)
        ]
        await until(lambda: sum(request.task.done() for request in slow) == MAX_UPLOADS // 2)
        refused = [request.answer for request in slow if request.task.done()]
        others = [(await upload(client, b"{}", **{"x-api-key": key})).status for key in ("ben", "cid")]
        for request in slow:
            request.hang_up()
        await asyncio.wait_for(asyncio.gather(*[slow_request.task for slow_request in slow]), PATIENCE_S)
        return refused, others, (await upload(client, b"{}", **{"x-api-key": "ann"})).status

    refused, others, after = rig().run(scenario)
    assert {answer.status for answer in refused} == {429}
    assert "4 uploads of this API key" in refused[0].error["message"]
    assert (others, after) == ([200, 200], 200)


def test_watchers_of_one_key_leave_places(rig):
    async def scenario(client):
        requests = [
            client.begin("GET", "/v1/status?stream=1", headers={"x-api-key": "ann"})
            for _ in range(MAX_WATCHERS)
        ]
        await until(lambda: all(request.answer.status for request in requests))
        other = client.begin("GET", "/v1/status?stream=1", headers={"x-api-key": "ben"})
        await until(lambda: other.answer.status)
        for request in [*requests, other]:
            request.hang_up()
        await asyncio.gather(*[request.task for request in [*requests, other]])
        return [request.answer.status for request in requests], other.answer.status

    ann, ben = rig().run(scenario)
    assert (ann.count(200), ann.count(429), ben) == (52, 12, 200)


# --- batches


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    store = OfflineDatabase(tmp_path / "db", OfflineLimits(100, 1 << 20, 99), clock, clock)
    for account in ("ann", "ben", "cid"):
        store.add_file(StoredFile(f"file-{account}", account, "batch", "in", 5, 0.0, 9e9))
    yield store
    store.close()


def add(store, name, account):
    batch = Batch(
        id=name,
        endpoint=CHAT,
        input_file_id=f"file-{account}",
        completion_window="24h",
        created_at=1,
        expires_at=9_000_000_000,
    )
    store.add_batch(batch, account, None)


def claimed(store, owner="me"):
    found = store.claim(owner)
    return None if found is None else found.batch.id


def test_the_key_of_which_fewer_batches_run_is_next(store):
    for number in range(4):
        add(store, f"ann-{number}", "ann")
    add(store, "ben-0", "ben")
    add(store, "cid-0", "cid")
    assert [claimed(store) for _ in range(7)] == [
        *("ann-0", "ben-0", "cid-0", "ann-1", "ann-2", "ann-3", None)
    ]


def test_of_one_key_the_oldest_is_next(store):
    for number in range(3):
        add(store, f"ann-{number}", "ann")
    assert claimed(store) == "ann-0"
    store.release("me")
    assert [claimed(store) for _ in range(3)] == ["ann-0", "ann-1", "ann-2"]


def test_a_batch_gives_way_to_a_key_of_which_fewer_run(store, clock):
    add(store, "ann-0", "ann")
    add(store, "ann-1", "ann")
    claimed(store)
    assert not store.gives_way("ann")  # its own waits
    add(store, "ben-0", "ben")
    assert store.gives_way("ann")
    assert not store.gives_way("ben")
    clock.now += 1
    store.heartbeat("me", range(1, 9))
    store.release("me")
    assert claimed(store) == "ben-0"  # its last run is longest ago
    assert not OfflineDatabase.gives_way(store, "cid")


def test_a_batch_of_another_key_has_its_turn(rig, monkeypatch):
    """Two batches that do not end hold both places of the worker."""
    monkeypatch.setattr("server.apis.batches.batch_worker.TURN_S", 0.05)
    monkeypatch.setattr("server.apis.batches.batch_worker.LOOK_S", 0.02)
    running = rig()
    running.pipeline.batches = ["forever"]

    async def scenario(client):
        async def make(key, number):
            file = (await upload(client, lines(line("a")), **{"x-api-key": key})).json["id"]
            body = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
            return (await client.post("/v1/batches", body, x_api_key=key)).json["id"]

        for number in range(3):
            await make("ann", number)
        await until(lambda: len(running.pipeline.calls) == 2)
        running.pipeline.batches = HI
        name = await make("ben", 0)
        async with asyncio.timeout(PATIENCE_S):
            while (batch := await client.get(f"/v1/batches/{name}", x_api_key="ben")).json[
                "status"
            ] != "completed":
                await asyncio.sleep(0.02)
        return batch.json["request_counts"]["completed"]

    assert running.run(scenario) == 1


def test_ended_batches_of_one_key_do_not_remove_those_of_others(store, monkeypatch):
    monkeypatch.setattr("server.apis.batches.database.MAX_BATCHES", 5)
    assert MAX_BATCHES > 5
    add(store, "ben-0", "ben")
    store.cancel("ben-0", "ben")
    for number in range(8):
        add(store, f"ann-{number}", "ann")
        store.cancel(f"ann-{number}", "ann")
        while (claimed_batch := store.claim("me")) is not None:
            store.end(claimed_batch.number, "me", [], {})
    assert store.batch("ben-0", "ben").id == "ben-0"
