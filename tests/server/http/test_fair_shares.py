"""One API key, or one session, leaves places for others."""

from __future__ import annotations

import pytest
from scripted import said

from pipelines.base.errors import Overloaded
from server.http.admission import Admission
from server.http.auth import Keys

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
BODY = {"messages": [{"role": "user", "content": "hi"}]}


def fill(admission: Admission, tenant: str) -> int:
    """How many more places the tenant gets."""
    for number in range(10_000):
        try:
            admission.enter(tenant)
        except Overloaded:
            return number
    raise AssertionError("no bound")


def test_one_tenant_alone_gets_its_share():
    assert fill(Admission(320, 0.8), "a") == 256


def test_there_is_a_place_for_the_next_while_each_takes_all_it_can():
    admission = Admission(320, 0.8)
    taken = [fill(admission, tenant) for tenant in "abc"]
    assert taken[0] == 256
    assert all(taken)
    assert admission.num_inside < 320


def test_tenants_get_equal_numbers_once_the_first_gives_places_back():
    admission, inside = Admission(320, 0.8), {"a": [], "b": []}
    for _ in range(2000):
        for tenant, leaves in inside.items():
            try:
                leaves.append(admission.enter(tenant))
            except Overloaded:
                if len(leaves) > 1:
                    leaves.pop()()
    a, b = map(len, inside.values())
    assert abs(a - b) <= 10
    assert a + b > 256


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_of_few_places_one_tenant_may_have_all(limit):
    assert fill(Admission(limit, 0.8), "a") == limit


def test_a_share_of_one_is_no_bound():
    admission = Admission(8, 1.0)
    assert fill(admission, "a") == 8
    with pytest.raises(Overloaded, match="already serves 8 requests, its max_concurrency"):
        admission.enter("b")


def test_what_leaves_is_forgotten():
    admission = Admission(8, 0.5)
    leaves = [admission.enter("a") for _ in range(4)]
    with pytest.raises(Overloaded):
        admission.enter("a")
    for leave in leaves:
        leave()
    assert (admission.num_inside, fill(admission, "a")) == (0, 4)


def test_keys_and_sessions_have_ids_that_tell_nothing():
    keys = Keys(["ann", "ben"])
    ids = {keys.tenant("Bearer ann"), keys.tenant(None, "ben"), keys.tenant("Bearer ben")}
    assert len(ids) == 2
    assert all(len(name) == 16 and int(name, 16) for name in ids)
    assert keys.tenant("Bearer other") is None
    assert Keys(["ben", "ann"]).tenant("Bearer ann") == keys.tenant("Bearer ann")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, BODY),
        ("/v1/completions", {"prompt": "a"}),
        ("/v1/messages", {**BODY, "max_tokens": 5}),
        ("/v1/chat/completions/batch", {"messages": [BODY["messages"]]}),
        (RESPONSES, {"input": "a"}),
        (RESPONSES, {"input": "a", "background": True}),
        ("/invocations", BODY),
        ("/beta/chat/completions", BODY),
        ("/beta/completions", {"prompt": "a"}),
        ("/v1/fim/completions", {"prompt": "a"}),
        ("/completion", {"prompt": "a"}),
        ("/api/chat", {"model": "tiny", **BODY}),
        ("/api/generate", {"model": "tiny", "prompt": "a"}),
        ("/v1beta/models/tiny:generateContent", {"contents": [{"parts": [{"text": "a"}]}]}),
        ("/inference/v1/generate", {"token_ids": [1], "sampling_params": {"max_tokens": 1}}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_call_names_the_tenant_of_its_key(make_rig, path, body):
    rig = make_rig(api_keys=("ann", "ben"))
    assert rig.post(path, body, Authorization="Bearer ben").status == 200
    assert rig.pipeline.calls[-1].tenant == Keys(["ben"]).tenant("Bearer ben")


async def fill_with_background_responses(client, number: int, **headers: str) -> list:
    body = {"input": "x", "background": True}
    return [await client.post(RESPONSES, body, **headers) for _ in range(number)]


async def cancel(client, made, **headers: str) -> None:
    for answer in made:
        if answer.status == 200:
            await client.post(f"{RESPONSES}/{answer.json['id']}/cancel", {}, **headers)


@pytest.mark.parametrize(
    ("settings", "greedy", "other"),
    [
        ({"api_keys": ("ann", "ben")}, {"Authorization": "Bearer ann"}, {"x_api_key": "ben"}),
        ({}, {"X_Session_ID": "ann"}, {"X_Session_ID": "ben"}),
        ({}, {"X_Session_ID": "ann"}, {}),
    ],
)
def test_a_tenant_full_of_background_responses_leaves_room(make_rig, settings, greedy, other):
    rig = make_rig(max_concurrency=20, **settings)
    rig.pipeline.batches = ["forever"]

    async def scenario(client):
        answers = await fill_with_background_responses(client, 30, **greedy)
        rig.pipeline.batches = [[(0, said("a", "stop"))]]
        served = await client.post(CHAT, BODY, **other)
        await cancel(client, answers, **greedy)
        return answers, served

    answers_made, served = rig.run(scenario)
    assert [answer.status for answer in answers_made] == [200] * 15 + [
        429
    ] * 15  # one more while it is started
    assert served.status == 200
    refused = answers_made[-1]
    assert refused.headers["retry-after"] == "1"
    assert "16 requests of this API key or session" in refused.error["message"]
    assert "max_concurrency, tenant_share 0.8" in refused.error["message"]
