"""Stored responses belong to the API key that made them."""

from __future__ import annotations

import pytest
from responses_bodies import PATH, ask

ANN, BEN = {"Authorization": "Bearer ann"}, {"x_api_key": "ben"}
USES = [
    ("GET", ""),
    ("GET", "?stream=true"),
    ("GET", "/input_items"),
    ("POST", "/cancel"),
    ("DELETE", ""),
]


@pytest.fixture
def rig(make_rig):
    return make_rig(api_keys=("ann", "ben"))


def missing(response_id: str) -> str:
    return f"Response with id '{response_id}' not found."


async def made_by_ann(client, **fields) -> str:
    answer = await client.post(PATH, ask(**fields), **ANN)
    assert answer.status == 200, answer.body
    return answer.json["id"]


@pytest.mark.parametrize("background", [False, True])
def test_for_another_key_it_is_as_if_it_was_not_there(rig, background):
    async def scenario(client):
        name = await made_by_ann(client, background=background)
        headers = {"x-api-key": "ben", "content-type": "application/json"}
        answers = [await client.ask(method, f"{PATH}/{name}{rest}", headers=headers) for method, rest in USES]
        return name, answers, await client.get(f"{PATH}/{name}", **ANN)

    name, answers, own = rig.run(scenario)
    assert [(each.status, each.error["message"]) for each in answers] == [(404, missing(name))] * len(USES)
    assert own.json["id"] == name


def test_it_is_continued_and_referred_to_by_its_own_key_alone(rig):
    async def scenario(client):
        first = await client.post(PATH, ask(), **ANN)
        name, item = first.json["id"], first.json["output"][0]["id"]
        reference = [{"type": "item_reference", "id": item}, {"role": "user", "content": "and?"}]
        bodies = ask(previous_response_id=name), ask(input=reference)
        return (
            name,
            item,
            [[await client.post(PATH, body, **headers) for body in bodies] for headers in (ANN, BEN)],
        )

    name, item, (own, other) = rig.run(scenario)
    assert [answer.status for answer in own] == [200, 200]
    assert (other[0].status, other[0].error["message"]) == (404, missing(name))
    assert (other[1].status, other[1].error["message"]) == (400, f"Item with id '{item}' not found.")


def test_the_store_never_holds_a_key(make_rig, tmp_path):
    path = tmp_path / "responses.sqlite"
    rig = make_rig(api_keys=("ann-secret-key",), responses_file=path)
    assert rig.post(PATH, ask(), Authorization="Bearer ann-secret-key").status == 200
    files = [file.read_bytes() for file in tmp_path.iterdir()]
    assert files
    assert not any(b"ann-secret-key" in content for content in files)


def test_without_keys_everybody_may_read_it(make_rig):
    rig = make_rig()

    async def scenario(client):
        made = (await client.post(PATH, ask(), X_Session_ID="one")).json["id"]
        return await client.get(f"{PATH}/{made}", X_Session_ID="two")

    assert rig.run(scenario).status == 200
