"""Arrays put on the wire and taken off it."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.errors import RequestError
from pipelines.wire.messages import Framer, SubmitTensors, ToHost, encode
from pipelines.wire.tensor_codec import pack, unpack

DTYPES = ["bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))]
DTYPES += ["float16", "float32", "float64"]


def carried(**arrays):
    (message,) = Framer(ToHost).feed(encode(SubmitTensors(1, "m", 1, "n", pack("inputs", arrays))))
    return unpack(message.inputs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
def test_arrays_come_back_equal(dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    back = carried(x=array)["x"]
    assert (back.dtype, back.shape) == (array.dtype, shape)
    np.testing.assert_array_equal(back, array)


def test_what_comes_back_is_the_reader_s_own():
    array = np.zeros(2)
    back = carried(x=array)["x"]
    back[:] = 1
    assert array.tolist() == [0, 0]


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([None]), np.zeros(1, "M8[s]"), np.zeros(1, complex)]
)
def test_what_is_no_number_is_named(array):
    with pytest.raises(RequestError, match=r"x holds .*, not numbers") as caught:
        pack("inputs", {"y": np.zeros(1), "x": array})
    assert caught.value.field == "x"
