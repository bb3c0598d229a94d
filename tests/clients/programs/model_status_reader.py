"""What Open WebUI does with a server of many models: lists them with their states, loads one, unloads it.

Arguments: the server's address.
"""

import sys

import httpx
from cases import run

client = httpx.Client(base_url=sys.argv[1], timeout=60)
NAME = "same/UINT8"


def states() -> dict[str, str]:
    listed = client.get("/models").raise_for_status().json()["data"]
    return {each["id"]: each["status"]["value"] for each in listed}


def all_are_listed_with_their_state() -> None:
    assert {states()[name] for name in ("detector", "two", "joined")} == {"loaded"}


def one_is_unloaded_and_stays_listed() -> None:
    assert client.post("/models/unload", json={"model": NAME}).raise_for_status().json()["success"]
    assert (states()[NAME], states()["detector"]) == ("unloaded", "loaded")
    assert client.get(f"/v2/models/{NAME}/ready").status_code != 200


def and_is_loaded_again() -> None:
    assert client.post("/models/load", json={"model": NAME}).raise_for_status().json()["success"]
    assert states()[NAME] == "loaded"
    assert client.get(f"/v2/models/{NAME}/ready").status_code == 200


def what_is_not_there_is_refused() -> None:
    reply = client.post("/models/load", json={"model": "none"})
    assert reply.status_code == 404
    assert "none" in reply.text


def reading_them_is_no_use_of_a_model() -> None:
    inputs = [{"name": "image", "shape": [2, 4], "datatype": "FP32", "data": [0.5] * 8}]
    assert client.post("/v2/models/detector/infer", json={"inputs": inputs}).status_code == 200
    assert client.get("/v1/config").json()["detector"]["model_version_status"][0]["state"] == "AVAILABLE"


run(
    [
        all_are_listed_with_their_state,
        one_is_unloaded_and_stays_listed,
        and_is_loaded_again,
        what_is_not_there_is_refused,
        reading_them_is_no_use_of_a_model,
    ]
)
