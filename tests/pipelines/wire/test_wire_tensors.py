"""Arrays put on the wire and taken off it."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.base.element_types import DTYPES, name_of, num_bytes
from pipelines.base.errors import RequestError
from pipelines.wire.address import EngineAddress
from pipelines.wire.framing import Framer, encode
from pipelines.wire.messages import ToHost
from pipelines.wire.requests import SubmitTensors
from pipelines.wire.string_tensors import MAX_STRINGS, decode
from pipelines.wire.tensor_codec import pack, unpack

STRINGS = [b"abc", b"", b"\0a\0", "é".encode(), b"\xff" * 300, b"z"]


def carried(**arrays):
    sent = SubmitTensors(EngineAddress("m", 1, "n"), pack("inputs", arrays))
    (message,) = Framer(ToHost).feed(encode(sent))
    return unpack(message.inputs)


def strings(items, shape):
    array = np.empty(len(items), object)
    array[:] = items
    return array.reshape(shape)


@pytest.mark.parametrize("dtype", sorted(DTYPES.keys() - {"bytes"}))
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
def test_arrays_come_back_equal(dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).astype(DTYPES[dtype]).reshape(shape)
    back = carried(x=array)["x"]
    assert (back.dtype, back.shape) == (array.dtype, shape)
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize(("items", "shape"), [(STRINGS, (2, 3)), (STRINGS[:1], ()), ([], (0, 4))])
def test_strings_come_back_equal(items, shape):
    (message,) = pack("inputs", {"x": strings(items, shape)})
    back = unpack([message])["x"]
    assert (name_of(back.dtype), back.shape, back.ravel().tolist()) == ("bytes", shape, items)
    assert num_bytes(back) == len(message.data) == sum(4 + len(item) for item in items)


def test_strings_are_written_as_kserve_writes_them():
    (message,) = pack("inputs", {"x": strings([b"ab", b""], (2,))})
    assert message.data == b"\x02\0\0\0ab\0\0\0\0"


@pytest.mark.parametrize(
    ("data", "shape"),
    [(b"", (1,)), (b"\x02\0\0\0a", (1,)), (b"\0\0\0\0\0", (1,)), (b"\xff\xff\xff\xff", (1,)), (b"a", (0,))],
)
def test_bytes_that_are_not_so_many_strings_are_refused(data, shape):
    with pytest.raises(ValueError, match="string"):
        decode(data, shape)


def test_more_strings_than_a_tensor_has_are_refused_before_they_are_made():
    with pytest.raises(ValueError, match=f"at most {MAX_STRINGS} strings"):
        decode(b"", (1 << 40, 1 << 40))


def test_strings_count_as_the_bytes_that_they_take(monkeypatch):
    monkeypatch.setattr("pipelines.wire.framing.MAX_FRAME_BYTES", (1 << 20) + 400)
    with pytest.raises(RequestError, match="x with 604 bytes"):
        pack("inputs", {"x": strings([b"a" * 600], (1,))})


def test_what_comes_back_is_the_reader_s_own():
    array = np.zeros(2)
    back = carried(x=array)["x"]
    back[:] = 1
    assert array.tolist() == [0, 0]


@pytest.mark.parametrize(
    "array",
    [np.array(["a"]), np.array([None]), np.array([3], object), np.zeros(1, "M8[s]"), np.zeros(1, complex)],
)
def test_what_is_no_number_is_named(array):
    with pytest.raises(RequestError, match=r"x holds .* not (numbers|bytes)") as caught:
        pack("inputs", {"y": np.zeros(1), "x": array})
    assert caught.value.field == "x"
