"""The data file of Braid's ONNX format, as other readers of ONNX find weights in it."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from pipelines.onnx_format.onnx_writer import OnnxWriter

ARRAYS = {
    "floats": np.arange(1000, dtype=np.float32).reshape(10, 100),
    "halves": np.arange(900, dtype=np.float16).reshape(9, 100),
    "bytes": np.arange(2000, dtype=np.uint32).astype(np.uint8).reshape(20, 100),
}


@pytest.fixture
def written(tmp_path):
    with OnnxWriter(tmp_path) as writer:
        rows = ir.val("rows", ir.DataType.FLOAT, [1, 100])
        stored = [writer.store(name, array) for name, array in ARRAYS.items()]
        place = writer.room("later", (4, 300), ir.DataType.UINT8)
        place.write(2, np.full((2, 300), 7, np.uint8))
        place.write(0, np.full((2, 300), 5, np.uint8))
        out = writer.op("Identity", rows)
        out.dtype, out.shape = ir.DataType.FLOAT, ir.Shape([1, 100])
        writer.save([rows], [out], "test")
    assert len(stored) == len(ARRAYS)
    return tmp_path / "model.onnx"


def test_each_weight_says_how_long_it_is(written):
    """OpenVINO's reader refuses a weight without a length that is not the rest of its file."""
    model = onnx.load(written, load_external_data=False)
    places = {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in model.graph.initializer
    }
    lengths = {name: array.nbytes for name, array in ARRAYS.items()} | {"later": 1200}
    assert {name: int(place["length"]) for name, place in places.items()} == lengths


def test_weights_are_read_as_they_were_written(written):
    model = onnx.load(written)
    found = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for name, array in ARRAYS.items():
        assert np.array_equal(found[name], array)
    assert np.array_equal(found["later"], np.repeat([5, 7], 2)[:, None].repeat(300, 1))
