"""Ids of responses that name their server, and what another server replies to them."""

from __future__ import annotations

import re

import pytest
from responses_bodies import PATH, ask

from server.base.environment import SettingsError, read_settings
from server.base.replica_ids import replica_of, with_replica

HEX = "0123456789abcdef" * 2
USES = {
    "read": lambda client, made: client.get(f"{PATH}/{made}"),
    "items": lambda client, made: client.get(f"{PATH}/{made}/input_items"),
    "cancel": lambda client, made: client.post(f"{PATH}/{made}/cancel", {}),
    "delete": lambda client, made: client.ask("DELETE", f"{PATH}/{made}"),
    "continue": lambda client, made: client.post(PATH, ask(previous_response_id=made)),
}


@pytest.mark.parametrize("replica", ["b", "braid-0", "10.0.0.7", "A" * 63])
def test_an_id_names_its_replica(replica):
    assert replica_of(with_replica(f"resp_{HEX}", replica)) == replica


@pytest.mark.parametrize(
    "response_id",
    [f"resp_{HEX}", "resp_mine", "resp_a_b", f"resp_a_b_{HEX}", f"resp__{HEX}", f"resp_a_{HEX}\n", ""],
)
def test_other_ids_name_none(response_id):
    assert replica_of(response_id) is None


def test_without_a_replica_ids_stay_as_they_are(rig):
    made = rig.post(PATH, ask()).json["id"]
    assert re.fullmatch(r"resp_[0-9a-f]{32}", made)
    assert "replica" not in rig.get(f"{PATH}/resp_other_{HEX}").error["message"]


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_response_of_another_replica_is_a_404_that_names_it(make_rig, use):
    async def scenario(client):
        return await use(client, f"resp_there_{HEX}")

    answer = make_rig(replica="here").run(scenario)
    assert answer.status == 404
    assert answer.error["message"].startswith(
        f"Response with id 'resp_there_{HEX}' not found. It is stored by"
    )
    assert "the replica 'there', and this is 'here'" in answer.error["message"]


@pytest.mark.parametrize("use", ["read", "items", "continue", "delete"])
def test_the_own_responses_are_found_by_their_ids(make_rig, use):
    async def scenario(client):
        made = (await client.post(PATH, ask())).json["id"]
        return made, await USES[use](client, made)

    made, answer = make_rig(replica="here").run(scenario)
    assert replica_of(made) == "here"
    assert answer.status == 200


def test_an_own_response_that_is_gone_names_no_other_replica(make_rig):
    answer = make_rig(replica="here").get(f"{PATH}/resp_here_{HEX}")
    assert answer.error["message"] == f"Response with id 'resp_here_{HEX}' not found."


@pytest.mark.parametrize("name", ["a_b", "a b", "a/b", "A" * 64, "é"])
def test_a_name_that_an_id_cannot_carry_stops_the_start(name):
    with pytest.raises(SettingsError, match="BRAID_REPLICA"):
        read_settings({"BRAID_REPLICA": name})
