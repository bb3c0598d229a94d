"""Triton's client over HTTP.  Arguments: the server's address."""

import sys

import numpy as np
import pytest
import tritonclient.http as triton
from cases import named, run
from tensor_elements import IMAGE, ONLY_AS_BYTES, TYPES, doubled_beside, elements
from tritonclient.utils import InferenceServerException

client = triton.InferenceServerClient(sys.argv[1].removeprefix("http://"))


def asked(model: str, inputs: dict, binary: bool = True, **more: object) -> triton.InferResult:
    given = []
    for name, (datatype, array) in inputs.items():
        given.append(triton.InferInput(name, list(array.shape), datatype))
        given[-1].set_data_from_numpy(array, binary_data=binary)
    return client.infer(model, given, **more)


def what_the_server_is() -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert {"binary_tensor_data", "model_repository"} <= set(client.get_server_metadata()["extensions"])


def what_a_model_is() -> None:
    assert client.is_model_ready("detector")
    assert client.is_model_ready("detector", "1")
    assert not client.is_model_ready("detector", "9")
    assert not client.is_model_ready("none")
    found = client.get_model_metadata("detector")
    assert found["inputs"] == [{"name": "image", "datatype": "FP32", "shape": [-1, 4]}]
    assert [output["name"] for output in found["outputs"]] == ["boxes", "doubled"]


def what_a_model_has_done() -> None:
    config = client.get_model_config("same/BYTES")
    assert config["input"] == [{"name": "given", "data_type": "TYPE_STRING", "dims": [-1, -1]}]
    before = client.get_inference_statistics("two")["model_stats"][0]
    two_models_give_what_numpy_computes()
    after = client.get_inference_statistics("two")["model_stats"][0]
    assert after["inference_count"] == before["inference_count"] + 1
    assert after["execution_count"] == before["execution_count"] + 1
    assert after["inference_stats"]["compute_infer"]["ns"] > before["inference_stats"]["compute_infer"]["ns"]


def same(datatype: str, binary: bool) -> None:
    array = elements(datatype)
    wanted = [triton.InferRequestedOutput("taken", binary_data=binary)]
    reply = asked(f"same/{datatype}", {"given": (datatype, array)}, binary, outputs=wanted)
    found = reply.as_numpy("taken")
    if datatype == "BYTES" and not binary:
        array = np.vectorize(bytes.decode, otypes=[object])(array)
    assert (found.dtype, found.tolist()) == (array.dtype, array.tolist())


def two_models_give_what_numpy_computes() -> None:
    reply = asked("two", {"image": ("FP32", IMAGE)}, request_id="q7")
    np.testing.assert_array_equal(reply.as_numpy("label"), doubled_beside(IMAGE))
    assert reply.get_response()["id"] == "q7"


def compressed(how: str) -> None:
    image = np.ones((300, 4), np.float32)
    reply = asked(
        "detector",
        {"image": ("FP32", image)},
        request_compression_algorithm=how,
        response_compression_algorithm=how,
    )
    np.testing.assert_array_equal(reply.as_numpy("doubled"), 2 * image)


def one_output_of_a_version() -> None:
    wanted = [triton.InferRequestedOutput("boxes")]
    reply = asked("detector", {"image": ("FP32", IMAGE)}, outputs=wanted, model_version="1")
    assert reply.as_numpy("boxes").shape == (2, 2)
    assert reply.as_numpy("doubled") is None


def in_a_pool_of_threads() -> None:
    tensor = triton.InferInput("image", [2, 4], "FP32")
    tensor.set_data_from_numpy(IMAGE)
    pending = [client.async_infer("detector", [tensor]) for _ in range(8)]
    assert all((one.get_result().as_numpy("doubled") == 2 * IMAGE).all() for one in pending)


def models_go_and_come() -> None:
    names = {each["name"] for each in client.get_model_repository_index()}
    assert {"detector", "two", "joined", "same/FP32"} <= names
    client.unload_model("same/INT8")
    states = {each["name"]: each["state"] for each in client.get_model_repository_index()}
    assert (states["same/INT8"], states["detector"]) == ("UNAVAILABLE", "READY")
    assert not client.is_model_ready("same/INT8")
    client.load_model("same/INT8")
    assert client.is_model_ready("same/INT8")
    same("INT8", binary=True)


def refusals() -> None:
    with pytest.raises(InferenceServerException, match="must be float32"):
        asked("detector", {"image": ("FP32", IMAGE[:, :2])})
    with pytest.raises(InferenceServerException, match="no input imag; did you mean image"):
        asked("detector", {"imag": ("FP32", IMAGE)})
    with pytest.raises(InferenceServerException, match="none"):
        asked("none", {"image": ("FP32", IMAGE)})
    with pytest.raises(InferenceServerException, match="none"):
        client.load_model("none")


run(
    [
        what_the_server_is,
        what_a_model_is,
        what_a_model_has_done,
        *(named(f"{each}_as_bytes", same, each, True) for each in TYPES),
        *(named(f"{each}_in_json", same, each, False) for each in TYPES if each not in ONLY_AS_BYTES),
        two_models_give_what_numpy_computes,
        named("gzip", compressed, "gzip"),
        named("deflate", compressed, "deflate"),
        one_output_of_a_version,
        in_a_pool_of_threads,
        models_go_and_come,
        refusals,
    ]
)
