"""Triton's client over gRPC.  Arguments: the addresses of the server, over HTTP and gRPC."""

import queue
import sys

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http
from cases import named, run
from tensor_elements import IMAGE, TYPES, doubled_beside, elements
from tritonclient.grpc.model_config_pb2 import DataType
from tritonclient.utils import InferenceServerException

client = triton.InferenceServerClient(sys.argv[2])


def tensor(name: str, datatype: str, array: np.ndarray) -> triton.InferInput:
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


def what_there_is() -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("detector")
    with pytest.raises(InferenceServerException, match="NOT_FOUND"):
        client.is_model_ready("none")
    (given,) = client.get_model_metadata("detector").inputs
    assert (given.name, given.datatype, list(given.shape)) == ("image", "FP32", [-1, 4])


def what_http_says() -> None:
    http = tritonclient.http.InferenceServerClient(sys.argv[1].removeprefix("http://"))
    client.infer("two", [tensor("image", "FP32", IMAGE)])
    for model in ("detector", "same/BYTES"):
        told, expected = client.get_model_config(model).config, http.get_model_config(model)
        assert (told.name, told.platform, told.backend) == (model, expected["platform"], "braid")
        for ours, theirs in ((told.input, expected["input"]), (told.output, expected["output"])):
            described = [
                (
                    described_tensor.name,
                    DataType.Name(described_tensor.data_type),
                    list(described_tensor.dims),
                )
                for described_tensor in ours
            ]
            assert described == [
                (described_tensor["name"], described_tensor["data_type"], described_tensor["dims"])
                for described_tensor in theirs
            ]
    (ours,) = client.get_inference_statistics("two").model_stats
    (theirs,) = http.get_inference_statistics("two")["model_stats"]
    assert 0 < ours.inference_count == theirs["inference_count"]
    assert 0 < ours.execution_count == theirs["execution_count"]
    assert 0 < ours.inference_stats.compute_infer.ns == theirs["inference_stats"]["compute_infer"]["ns"]
    index = [(model.name, model.version, model.state) for model in client.get_model_repository_index().models]
    assert index == [
        (entry["name"], entry["version"], entry["state"]) for entry in http.get_model_repository_index()
    ]


def same(datatype: str) -> None:
    array = elements(datatype)
    found = client.infer(f"same/{datatype}", [tensor("given", datatype, array)]).as_numpy("taken")
    assert (found.dtype, found.tolist()) == (array.dtype, array.tolist())


def two_models_give_what_numpy_computes() -> None:
    reply = client.infer("two", [tensor("image", "FP32", IMAGE)], request_id="q7")
    np.testing.assert_array_equal(reply.as_numpy("label"), doubled_beside(IMAGE))
    assert reply.get_response().id == "q7"


def in_a_stream() -> None:
    answers: queue.Queue = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for number in range(5):
        client.async_stream_infer("detector", [tensor("image", "FP32", IMAGE + number)])
    for number in range(5):
        result, error = answers.get(timeout=20)
        assert error is None
        np.testing.assert_array_equal(result.as_numpy("doubled"), 2 * (IMAGE + number))
    client.stop_stream()


def refusals() -> None:
    with pytest.raises(InferenceServerException, match="INVALID_ARGUMENT.* must be float32"):
        client.infer("detector", [tensor("image", "FP32", IMAGE[:, :2])])
    with pytest.raises(InferenceServerException, match="NOT_FOUND"):
        client.infer("none", [tensor("image", "FP32", IMAGE)])
    with pytest.raises(InferenceServerException, match="UNIMPLEMENTED"):
        client.load_model("detector")


run(
    [
        what_there_is,
        what_http_says,
        *(named(f"{each}_there_and_back", same, each) for each in TYPES),
        two_models_give_what_numpy_computes,
        in_a_stream,
        refusals,
    ]
)
