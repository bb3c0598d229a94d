"""Random bodies, valid ones that were spoiled: each is read or refused, and none is an error of the server."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest
from kserve_requests import HEADER, IMAGE

from pipelines.base.errors import RequestError
from pipelines.wire.messages import TensorSpec
from server.apis.kserve.generate_body import read_generate
from server.apis.kserve.infer_body import json_length, read_infer
from server.apis.kserve.predict import read_predict

SEED, NUM_CASES, NUM_SENT = 16, 2000, 150
SPECS = [TensorSpec("image", "float32", [None, 4]), TensorSpec("text", "bytes", None)]
VALUES = [
    *(
        None,
        True,
        -1,
        0,
        1,
        2**31,
        2**63,
        2**70,
        1.5,
        1e308,
        "",
        "FP32",
        "BYTES",
        "BF16",
        "BOOL",
        "UINT64",
        "x" * 99,
    ),
    *(
        [],
        {},
        [[]],
        [[1, 2], [3]],
        [1, [2]],
        ["a", None],
        {"b64": "/w=="},
        {"b64": "!"},
        [2, 4],
        [2**40, 2**40],
    ),
    *([-1], [0], "\ud7ff", {"binary_data_size": 8}, {"binary_data_size": -1}, {"shared_memory_region": 1}),
]


def seeds():
    image = {"name": "image", "shape": [2, 4], "datatype": "FP32", "data": IMAGE.tolist()}
    sized = {"name": "image", "shape": [2, 4], "datatype": "FP32", "parameters": {"binary_data_size": 32}}
    texts = {"name": "text", "shape": [2], "datatype": "BYTES", "data": ["a", "b"]}
    yield {"inputs": [image], "outputs": [{"name": "boxes"}], "id": "a"}, b""
    yield {"inputs": [sized], "parameters": {"binary_data_output": True}}, IMAGE.tobytes()
    yield {"inputs": [image, texts]}, b""
    yield {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES"}]}, b"\x01\x00\x00\x00a"
    yield {"instances": [{"image": [1, 2, 3, 4], "text": "a"}]}, b""
    yield {"inputs": {"image": [[1, 2, 3, 4]], "text": [{"b64": "aGk="}]}}, b""
    yield {"text_input": "a", "parameters": {"max_tokens": 1}}, b""


def spoiled(value, random):
    """The same value with one part of it replaced, left out or doubled."""
    if random.random() < 0.25 or not isinstance(value, dict | list) or not value:
        return random.choice(VALUES)
    copy = value.copy()
    key = random.choice(list(copy)) if isinstance(copy, dict) else random.randrange(len(copy))
    match random.random():
        case chance if chance < 0.7:
            copy[key] = spoiled(copy[key], random)
        case chance if chance < 0.85:
            del copy[key]
        case _ if isinstance(copy, list):
            copy.append(copy[key])
        case _:
            copy[random.choice(["inputs", "data", "name", "shape"])] = copy[key]
    return copy


def case(number):
    """The bytes of a body, and the length of its JSON as a header says it."""
    random = Random(SEED * 100_000 + number)
    body, tail = random.choice(list(seeds()))
    for _ in range(random.randrange(1, 3)):
        body = spoiled(body, random)
    head = bytearray(json.dumps(body).encode())
    if random.random() < 0.2:
        head[random.randrange(len(head))] = random.randrange(256)
    tail = tail[: random.randrange(len(tail) + 1)] + random.randbytes(random.choice([0, 0, 0, 5]))
    length = random.choice([len(head), len(head), 0, len(head) + 1, "x"])
    return bytes(head) + tail, str(length) if tail or random.random() < 0.3 else None


def read(reader, *arguments):
    try:
        return reader(*arguments)
    except RequestError:
        return None


@pytest.mark.filterwarnings("error")
def test_each_body_is_read_or_refused():
    num = 0
    for number in range(NUM_CASES):
        body, header = case(number)
        length = read(json_length, body, header)
        inference = None if length is None else read(read_infer, body, length)
        read(read_predict, body, SPECS)
        read(read_generate, body)
        if inference is not None:
            num += 1
            assert all(isinstance(array, np.ndarray) for array in inference.inputs.values())
    assert 50 < num < NUM_CASES / 2


def test_no_body_is_an_error_of_the_server(ask):
    paths = ("/v2/models/detector/infer", "/v1/models/detector:predict", "/v2/models/text/generate")
    for number in range(NUM_SENT):
        body, header = case(number)
        headers = {} if header is None else {HEADER: header}
        assert ask.post(paths[number % 3], content=body, headers=headers).status_code in (200, 400)
