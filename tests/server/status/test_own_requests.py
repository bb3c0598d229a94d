"""With several keys each sees and cancels its own requests; admin keys, and a single key, all."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from test_status_feed import SHOWN, VIEW

from pipelines.telemetry.request_record import ErrorRecord, RequestRecord
from pipelines.wire.engine_view import FREE, SHARED, SequenceView
from server.http.auth import Keys
from server.status.own_requests import own_requests

KEYS = ("ann", "ben")
ANN, BEN = (Keys([key]).tenant(f"Bearer {key}") for key in KEYS)


def sequence(name, tenant):
    return SequenceView(name, 0, "running", 1, 1, 0, 1, 9, 1, 1.0, None, tenant)


def shown(*tenants):
    """What a host shows of requests of these tenants, two blocks of each and one that is shared."""
    sequences = [sequence(f"req-{number}", tenant) for number, tenant in enumerate(tenants)]
    blocks = [*((2, number) for number in range(len(tenants))), (1, SHARED), (1, FREE)]
    view = replace(VIEW, sequences=sequences, block_map=blocks)
    requests = [RequestRecord(f"r-{each}", 1.0, "/", "m", 200, "stop", 0.1, account=each) for each in tenants]
    errors = [ErrorRecord(f"e-{each}", 1.0, 400, "/", None, "no", each) for each in tenants]
    return replace(SHOWN, nodes=[view], requests=requests, errors=errors)


def listed(answer):
    reply = answer.json
    return {
        "requests": [one["id"] for one in reply["requests"]],
        "recent": sorted(one["id"] for one in reply["recent"]),
        "errors": sorted(one["id"] for one in reply["errors"]),
        "map": reply["queues"][0]["map"],
    }


@pytest.mark.parametrize("query", ["", "?stream=1"])
def test_a_key_among_several_sees_its_own_requests(make_rig, query):
    rig = make_rig(api_keys=KEYS, admin_keys=("root",))
    rig.services.client.inspected = [shown(ANN, BEN, f"batch {ANN}", "")]

    async def scenario(client):
        by_key = {}
        for key in (*KEYS, "root"):
            request = client.begin("GET", f"/v1/status{query}", headers={"x-api-key": key})
            await (request.answer.wrote.wait() if query else request.task)
            if query:
                request.hang_up()
                await request.task
                request.answer.writes[:] = [request.answer.writes[0].removeprefix(b"data: ").strip()]
            by_key[key] = listed(request.answer)
        return by_key

    seen_by = rig.run(scenario)
    assert seen_by["ann"] == {
        "requests": ["req-0", "req-2"],
        "recent": [f"r-{ANN}"],
        "errors": [f"e-{ANN}"],
        "map": [[2, 0], [2, SHARED], [2, 1], [2, SHARED], [1, SHARED], [1, FREE]],
    }
    assert (seen_by["ben"]["requests"], seen_by["ben"]["recent"]) == (["req-1"], [f"r-{BEN}"])
    assert seen_by["root"]["requests"] == [f"req-{number}" for number in range(4)]
    assert len(seen_by["root"]["recent"]) == len(seen_by["root"]["errors"]) == 4


@pytest.mark.parametrize("keys", [(), ("ann",)])
def test_without_several_keys_all_is_seen(make_rig, keys):
    rig = make_rig(api_keys=keys)
    rig.services.client.inspected = [shown("x", "y")]
    answer = rig.get("/v1/status", Authorization="Bearer ann")
    assert listed(answer)["requests"] == ["req-0", "req-1"]
    assert len(listed(answer)["recent"]) == 2


@pytest.mark.parametrize(
    ("settings", "key", "account"),
    [
        ({"api_keys": KEYS}, "ann", ANN),
        ({"api_keys": KEYS}, "ben", BEN),
        ({"api_keys": KEYS, "admin_keys": ("root",)}, "root", None),
        ({"api_keys": KEYS, "admin_keys": ("ann",)}, "ann", None),
        ({"api_keys": ("ann",)}, "ann", None),
        ({}, "any", None),
    ],
)
def test_whose_requests_a_key_cancels(make_rig, settings, key, account):
    rig = make_rig(**settings)
    rig.services.client.num_in_flight = 1
    assert rig.post("/v1/requests/req-1/cancel", {}, Authorization=f"Bearer {key}").status == 200
    assert rig.services.client.cancelled_of == [account]


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/requests/req-1/cancel", {}), ("/inference/v1/abort_requests", {"request_ids": ["req-1"]})],
)
def test_with_admin_keys_they_alone_end_requests(make_rig, path, body):
    rig = make_rig(api_keys=("ann",), admin_keys=("root",))
    rig.services.client.num_in_flight = 1
    assert rig.post(path, body, Authorization="Bearer ann").status == 401
    assert rig.services.client.cancelled_of == []
    assert rig.post(path, body, Authorization="Bearer root").status == 200
    assert rig.services.client.cancelled_of == [None]


def test_records_have_the_account_of_their_key(make_rig):
    rig = make_rig(api_keys=KEYS)

    async def scenario(client):
        for key in KEYS:
            await client.post("/v1/chat/completions", {"messages": 5}, x_api_key=key)
        rig.services.requests.flush()

    rig.run(scenario)
    assert [request.account for request in rig.services.client.requests] == [ANN, BEN]
    assert [error.account for error in rig.services.client.errors] == [ANN, BEN]


def test_an_account_of_none_is_shown_to_admins_alone(make_rig):
    """What failed before it was known whose it is."""
    host = own_requests(shown(""), ANN)
    assert host.nodes[0].sequences == []
