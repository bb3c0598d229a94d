"""KServe's own client.  Arguments: the addresses of the server, over HTTP and gRPC."""

import sys

import numpy as np
import pytest
from cases import run
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import InferResponse
from tensor_elements import IMAGE, doubled_beside

URL, GRPC = sys.argv[1:]
rest = InferenceRESTClient(RESTConfig(protocol="v2", timeout=60))


def request(model: str, image: np.ndarray, binary: bool, **parameters: bool) -> InferRequest:
    tensor = InferInput("image", list(image.shape), "FP32")
    tensor.set_data_from_numpy(image, binary_data=binary)
    return InferRequest(model_name=model, infer_inputs=[tensor], parameters=parameters)


async def infer(model: str, image: np.ndarray = IMAGE, binary: bool = True, **more: bool) -> InferResponse:
    return await rest.infer(URL, request(model, image, binary, **more), model_name=model)


async def what_there_is() -> None:
    assert await rest.is_server_live(URL)
    assert await rest.is_server_ready(URL)
    assert await rest.is_model_ready(URL, "detector")
    assert not await rest.is_model_ready(URL, "none")


async def tensors_in_json_and_as_bytes() -> None:
    for binary, wanted in ((False, False), (True, False), (True, True)):
        reply = await infer("two", binary=binary, binary_data_output=wanted)
        (label,) = reply.outputs
        np.testing.assert_array_equal(label.as_numpy(), doubled_beside(IMAGE))


async def over_grpc() -> None:
    client = InferenceGRPCClient(GRPC)
    assert await client.is_server_ready()
    assert await client.is_model_ready("detector")
    reply = await client.infer(request("two", IMAGE, True))
    np.testing.assert_array_equal(reply.outputs[0].as_numpy(), doubled_beside(IMAGE))
    await client.close()


async def refusals() -> None:
    with pytest.raises(Exception, match="none"):
        await infer("none")
    with pytest.raises(Exception, match="must be float32"):
        await infer("detector", IMAGE[:, :2])


run([what_there_is, tensors_in_json_and_as_bytes, over_grpc, refusals])
