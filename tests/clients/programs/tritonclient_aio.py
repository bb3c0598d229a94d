"""Triton's client over HTTP with asyncio: fifty requests at once.  Arguments: the server's address."""

import asyncio
import sys

import numpy as np
import tritonclient.http.aio as triton
from cases import run
from tensor_elements import doubled_beside

HOST = sys.argv[1].removeprefix("http://")
AT_ONCE = 50


async def image_through(
    client: triton.InferenceServerClient, model: str, number: int
) -> dict[str, np.ndarray]:
    image = np.full((1 + number % 3, 4), number, np.float32)
    tensor = triton.InferInput("image", list(image.shape), "FP32")
    tensor.set_data_from_numpy(image)
    reply = await client.infer(model, [tensor])
    names = [output["name"] for output in reply.get_response()["outputs"]]
    return {"image": image, **{name: reply.as_numpy(name) for name in names}}


async def all_at_once(model: str) -> list[dict[str, np.ndarray]]:
    client = triton.InferenceServerClient(HOST, conn_limit=AT_ONCE)
    try:
        return await asyncio.gather(*(image_through(client, model, number) for number in range(AT_ONCE)))
    finally:
        await client.close()


async def fifty_at_once_through_two_models() -> None:
    for found in await all_at_once("two"):
        np.testing.assert_array_equal(found["label"], doubled_beside(found["image"]))


async def fifty_at_once_that_are_joined() -> None:
    for found in await all_at_once("joined"):
        np.testing.assert_array_equal(found["doubled"], 2 * found["image"])
        np.testing.assert_array_equal(found["boxes"], 2 * found["image"][:, :2])


run([fifty_at_once_through_two_models, fifty_at_once_that_are_joined])
