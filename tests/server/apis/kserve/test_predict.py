"""TensorFlow Serving's paths, with a real engine."""

from __future__ import annotations

import numpy as np
import pytest
from kserve_requests import IMAGE

from pipelines.wire.messages import TensorSpec
from server.apis.kserve.predict import read_predict

DOUBLED, BOXES = (2 * IMAGE).tolist(), (2 * IMAGE[:, :2]).tolist()
ROWS = [{"boxes": boxes, "doubled": doubled} for boxes, doubled in zip(BOXES, DOUBLED, strict=True)]


@pytest.mark.parametrize(
    "path", ["detector:predict", "detector/versions/1:predict", "detector/versions/0:predict"]
)
@pytest.mark.parametrize(
    ("body", "reply"),
    [
        ({"instances": IMAGE.tolist()}, {"predictions": ROWS}),
        ({"instances": [{"image": row} for row in IMAGE.tolist()]}, {"predictions": ROWS}),
        ({"inputs": {"image": IMAGE.tolist()}}, {"outputs": {"boxes": BOXES, "doubled": DOUBLED}}),
        (
            {"inputs": IMAGE.tolist(), "signature_name": "serving_default"},
            {"outputs": {"boxes": BOXES, "doubled": DOUBLED}},
        ),
    ],
)
def test_rows_and_columns(ask, path, body, reply):
    assert ask.post(f"/v1/models/{path}", json=body).json() == reply


def test_one_output_stands_alone(ask):
    wanted = np.concatenate([2 * IMAGE[:, :2], IMAGE], 1).tolist()
    assert ask.post("/v1/models/org/two:predict", json={"instances": IMAGE.tolist()}).json() == {
        "predictions": wanted
    }
    assert ask.post("/v1/models/org/two:predict", json={"inputs": IMAGE.tolist()}).json() == {
        "outputs": wanted
    }


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "either `instances` or `inputs`"),
        ({"instances": [], "inputs": []}, "either `instances` or `inputs`"),
        ({"instances": 5}, "is not a predict request"),
        ({"instances": [{"imag": [1]}]}, "has no input imag"),
        ({"instances": [{"image": [1]}, {"other": [1]}]}, "the same inputs"),
        ({"instances": [[1, 2], [3]]}, "does not fit FP32"),
        ({"instances": [["a"]]}, "is not a list of FP32"),
        ({"inputs": 1.5}, "it has 0 axes"),
        ({"inputs": IMAGE.tolist(), "signature_name": "other"}, "serving_default"),
    ],
    ids=str,
)
def test_what_is_refused(ask, body, said):
    reply = ask.post("/v1/models/detector:predict", json=body)
    assert (reply.status_code, said in reply.json()["error"]) == (400, True), reply.text


def test_texts_and_base64():
    specs = [TensorSpec("text", "bytes", [None])]
    for body in (b'{"instances": ["hi", {"b64": "/w=="}]}', b'{"inputs": {"text": ["hi", {"b64": "/w=="}]}}'):
        assert read_predict(body, specs)[0]["text"].tolist() == [b"hi", b"\xff"]


def test_states_and_signatures(ask):
    assert ask.get("/v1/models/detector/versions/0").json() == {
        "model_version_status": [
            {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": "OK"}}
        ]
    }
    told = ask.get("/v1/models/detector/versions/0/metadata").json()
    assert told["model_spec"] == {"name": "detector", "signature_name": "", "version": "1"}
    assert told["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]["image"] == {
        "dtype": "DT_FLOAT",
        "tensor_shape": {
            "dim": [{"size": "-1", "name": ""}, {"size": "4", "name": ""}],
            "unknown_rank": False,
        },
        "name": "image",
    }
    assert ask.get("/v1/models/detector/metadata").json() == told


def test_openai_goes_on_under_the_same_path(ask):
    assert ask.get("/v1/models/detector").json()["object"] == "model"
    missing = ask.get("/v1/models/nope/versions/1")
    assert (missing.status_code, list(missing.json()["error"])[:1]) == (404, ["T"])
