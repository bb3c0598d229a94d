"""KServe's infer over HTTP, with a real engine: JSON, bytes, every type, and what is refused."""

from __future__ import annotations

import gzip
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from kserve_requests import HEADER, IMAGE, NUMBERS, as_input, tensors_of
from one_test import in_one_test

from server.apis.kserve.datatypes import NAMES

DETECT = {"inputs": [as_input("image", IMAGE)]}
IN_JSON = [name for name in NUMBERS if name != "FP16"]


def refused(reply, status=400):
    assert (reply.status_code, list(reply.json())) == (status, ["error"])
    return reply.json()["error"]


def test_json_in_and_out(ask):
    reply = ask.infer("detector", {"id": "q7", **DETECT})
    body = reply.json()
    assert (body["model_name"], body["model_version"], body["id"]) == ("detector", "1", "q7")
    outputs = {output["name"]: output for output in body["outputs"]}
    assert outputs["doubled"] == {
        "name": "doubled",
        "datatype": "FP32",
        "shape": [2, 4],
        "data": (2 * IMAGE).ravel().tolist(),
    }


def test_bytes_in_and_out(ask):
    sent = as_input("image", IMAGE, binary_data_size=IMAGE.nbytes)
    body = {"inputs": [sent], "parameters": {"binary_data_output": True}}
    reply = ask.infer("detector", body, IMAGE.tobytes())
    assert reply.headers["content-type"] == "application/octet-stream"
    found, data = tensors_of(reply)["doubled"]
    np.testing.assert_array_equal(np.frombuffer(data, "<f4").reshape(found["shape"]), 2 * IMAGE)


def test_an_output_says_itself_whether_it_is_bytes(ask):
    body = DETECT | {
        "outputs": [{"name": "doubled", "parameters": {"binary_data": False}}, {"name": "boxes"}],
        "parameters": {"binary_data_output": True},
    }
    found = tensors_of(ask.infer("detector", body))
    assert found["doubled"][0]["data"] == (2 * IMAGE).ravel().tolist()
    assert found["boxes"][1] == (2 * IMAGE[:, :2]).tobytes()


def test_without_its_size_a_tensor_has_the_bytes_of_its_shape(ask):
    sent = {"name": "image", "shape": [2, 4], "datatype": "FP32"}
    assert tensors_of(ask.infer("detector", {"inputs": [sent]}, IMAGE.tobytes()))


def test_two_models_in_one_graph_equal_numpy(ask):
    found, _ = tensors_of(ask.infer("org/two", DETECT))["label"]
    wanted = np.concatenate([2 * IMAGE[:, :2], IMAGE], 1)
    np.testing.assert_array_equal(np.array(found["data"], np.float32).reshape(found["shape"]), wanted)


def test_every_type_there_and_back(ask):
    arrays = {
        name: (np.array([0, 1, 1]) if name == "BOOL" else np.array([0, 1, 100])).astype(NAMES[name])
        for name in NUMBERS
    }
    whole = ask.infer(
        "types",
        {
            "inputs": [
                as_input(name, array, name, binary_data_size=array.nbytes) for name, array in arrays.items()
            ],
            "parameters": {"binary_data_output": True},
        },
        b"".join(array.tobytes() for array in arrays.values()),
    )
    assert {name: tensor[1] for name, tensor in tensors_of(whole).items()} == {
        f"same_{name}": array.tobytes() for name, array in arrays.items()
    }
    half = arrays.pop("FP16")
    mixed = ask.infer(
        "types",
        {
            "inputs": [
                as_input("FP16", half, "FP16", binary_data_size=6),
                *(as_input(name, array, name) for name, array in arrays.items()),
            ],
            "outputs": [{"name": f"same_{name}"} for name in arrays],
        },
        half.tobytes(),
    )
    for name, values in arrays.items():
        assert tensors_of(mixed)[f"same_{name}"][0] == {**as_input(f"same_{name}", values, name)}


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)], ids=["gzip", "deflate"]
)
def test_compressed_bodies(ask, encoding, compress):
    body = compress(ask.build_request("POST", "/", json=DETECT).content)
    path = "/v2/models/detector/infer"
    assert tensors_of(ask.post(path, content=body, headers={"Content-Encoding": encoding}))
    for broken in (body[:-4], body + b"more", b"no " + body):
        refused(ask.post(path, content=broken, headers={"Content-Encoding": encoding}))


def test_a_body_that_inflates_beyond_the_limit_is_refused(ask):
    bomb = gzip.compress(bytes(5 << 20), 1)
    reply = ask.post("/v2/models/detector/infer", content=bomb, headers={"Content-Encoding": "gzip"})
    assert "larger than 4194304 bytes" in refused(reply, 413)


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "application/octet-stream"])
def test_any_type_of_content(ask, kind):
    body = ask.build_request("POST", "/", json=DETECT).content
    headers = {} if kind is None else {"Content-Type": kind}
    assert tensors_of(ask.post("/v2/models/detector/infer", content=body, headers=headers))


@pytest.mark.parametrize("name", ["org/two", "org%2Ftwo"])
def test_a_name_with_a_slash(ask, name):
    assert ask.get(f"/v2/models/{name}").json()["name"] == "org/two"
    assert ask.get(f"/v2/models/{name}/versions/1/ready").json() == {"name": "org/two", "ready": True}


def test_what_a_server_and_its_models_say(ask):
    assert ask.get("/v2").json()["extensions"][0] == "binary_tensor_data"
    assert ask.get("/v2/models").json() == {
        "models": ["asks", "detector", "org/two", "ranks", "text", "types", "vectors"]
    }
    told = ask.get("/v2/models/detector/versions/1").json()
    assert told == {
        "name": "detector",
        "versions": ["1"],
        "platform": "braid_tensors",
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [
            {"name": "boxes", "datatype": "FP32", "shape": [-1, 2]},
            {"name": "doubled", "datatype": "FP32", "shape": [-1, 4]},
        ],
    }


def test_what_triton_s_clients_ask_of_a_model(ask):
    config = ask.get("/v2/models/org/two/versions/1/config").json()
    assert (config["name"], config["max_batch_size"]) == ("org/two", 0)
    assert config["input"] == [{"name": "image", "data_type": "TYPE_FP32", "dims": [-1, 4]}]

    def counts():
        (stats,) = ask.get("/v2/models/detector/stats").json()["model_stats"]
        return stats["inference_count"], stats["execution_count"]

    requests, runs = counts()
    ask.infer("detector", DETECT)
    assert counts() == (requests + 1, runs + 1)


@pytest.mark.parametrize("path", ["", "/ready", "/versions/9", "/versions/x/ready"])
def test_models_and_versions_that_do_not_exist(ask, path):
    assert "does not exist" in refused(ask.get(f"/v2/models/nope{path}"), 404)
    if path.startswith("/versions"):
        assert "it has 1" in refused(ask.get(f"/v2/models/detector{path}"), 404)


def test_a_method_that_a_path_does_not_have(ask):
    reply = ask.get("/v2/models/detector/infer")
    assert (reply.headers["allow"], reply.status_code) == ("POST", 405)
    assert ask.post("/v2/models/detector", json={}).headers["allow"] == "GET"


def test_fifty_at_once(ask):
    def one(number):
        image = IMAGE + number
        found, _ = tensors_of(ask.infer("detector", {"inputs": [as_input("image", image)]}))["doubled"]
        return found["data"] == (2 * image).ravel().tolist()

    with ThreadPoolExecutor(50) as pool:
        assert all(pool.map(one, range(50)))


IMAGE_INPUT = DETECT["inputs"][0]
BINARY = {"name": "image", "shape": [2, 4], "datatype": "FP32"}


@in_one_test(
    "change, said",
    [
        ({"shape": [2, 5]}, "has 8 elements; its shape [2, 5] takes 10"),
        ({"shape": [2, -1]}, "lengths are 0 or more"),
        ({"shape": [2**62, 2**62]}, "is more than 268435456 elements"),
        ({"shape": [0, 2**40], "data": []}, "is more than 268435456 elements"),
        ({"shape": [2**70]}, "is more than"),
        ({"shape": [1] * 40, "data": [1]}, "more than 32 axes"),
        ({"datatype": "FP8"}, 'is "FP8"; allowed: BOOL'),
        ({"datatype": "INT32", "data": [[0.5] * 4] * 2}, "is not a list of INT32"),
        ({"datatype": "UINT8", "data": [256] * 8}, "does not fit UINT8"),
        ({"datatype": "FP16"}, "which JSON cannot hold: send bytes"),
        ({"datatype": "BOOL"}, "is not a list of BOOL"),
        ({"data": [["1"] * 4] * 2}, "is not a list of FP32"),
        ({"data": [[1], [2, 3]]}, "does not fit FP32"),
        ({"data": [1e300] * 8}, "a number is out of its range"),
        ({"data": None}, "is not a list of FP32"),
        ({"parameters": {"binary_data_size": 32}}, "both `data` and `binary_data_size`"),
        ({"parameters": {"shared_memory_region": "x"}}, "reads no memory of its clients"),
        ({"name": "imag"}, "has no input imag; did you mean image?"),
        ({"shape": [4, 2]}, "must be float32[?, 4], but its shape is [4, 2]"),
    ],
)
def test_a_tensor_that_is_refused(ask, change, said):
    assert said in refused(ask.infer("detector", {"inputs": [IMAGE_INPUT | change]}))


@pytest.mark.parametrize(
    ("size", "tail", "said"),
    [
        (31, IMAGE.tobytes()[:31], "has 31 bytes; its shape [2, 4] of FP32 takes 32"),
        (33, IMAGE.tobytes(), "32 are left in the body"),
        (32, IMAGE.tobytes() + b"x", "1 bytes follow the tensors"),
        ("32", IMAGE.tobytes(), "must be an integer"),
        (-1, IMAGE.tobytes(), "must be an integer"),
    ],
)
def test_bytes_that_do_not_fit(ask, size, tail, said):
    body = {"inputs": [BINARY | {"parameters": {"binary_data_size": size}}]}
    assert said in refused(ask.infer("detector", body, tail))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "is not an infer request"),
        ({"inputs": []}, "The input image is missing"),
        ({"inputs": [IMAGE_INPUT, IMAGE_INPUT]}, "two inputs of the name image"),
        (DETECT | {"outputs": [{"name": "box"}]}, "has no output `box`"),
        (DETECT | {"outputs": [{"name": "boxes", "parameters": {"classification": 3}}]}, "classification"),
        (DETECT | {"parameters": {"sequence_id": 5}}, "holds no state between requests"),
        (DETECT | {"parameters": {"binary_data_output": 1}}, "must be true or false"),
    ],
    ids=str,
)
def test_a_request_that_is_refused(ask, body, said):
    assert said in refused(ask.infer("detector", body))


@pytest.mark.parametrize("length", ["x", "-1", "9999"])
def test_a_length_of_the_json_that_is_none(ask, length):
    body = ask.build_request("POST", "/", json=DETECT).content
    reply = ask.post("/v2/models/detector/infer", content=body, headers={HEADER: length})
    assert HEADER in refused(reply)


def test_parameters_without_effect_pass(ask):
    parameters = {"priority": 3, "timeout": 10, "sequence_id": 0, "custom": "x"}
    assert tensors_of(ask.infer("detector", DETECT | {"parameters": parameters}))
