"""Tensors in, tensors out: both engines, what they say of a model, and requests that name their fault."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from pipelines.errors import RequestError
from pipelines.host.backends.device_errors import ModelError
from pipelines.host.backends.tensor_contract import TensorPort, run_tensors
from pipelines.nodes.tensors.body.tensor_model import TensorSettings, open_tensors

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)
IDS = np.array([[1], [-2]], np.int64)


def write_model(folder: Path, dtype: ir.DataType = ir.DataType.FLOAT) -> Path:
    """`sum` = rows [batch, 3] + ids [batch, 1], `ids_twice` = ids + ids."""
    rows = ir.val("rows", dtype, ["batch", 3])
    ids = ir.val("ids", ir.DataType.INT64, ["batch", 1])
    tape = ir.tape.Tape()
    total = tape.op("Add", [rows, tape.op("Cast", [ids], {"to": dtype})])
    twice = tape.op("Add", [ids, ids])
    for value, name, like in ((total, "sum", rows), (twice, "ids_twice", ids)):
        value.name, value.dtype, value.shape = name, like.dtype, like.shape
    graph = ir.Graph([rows, ids], [total, twice], nodes=tape.nodes, opset_imports={"": 20}, name="sums")
    ir.save(ir.Model(graph, ir_version=10), folder / "model.onnx")
    return folder / "model.onnx"


@pytest.fixture(params=["onnx", "onnx through openvino", "xml"])
def session(request, tmp_path):
    path, settings = write_model(tmp_path), TensorSettings(threads=1)
    if request.param == "xml":
        import openvino as ov

        ov.save_model(ov.Core().read_model(path), tmp_path / "model.xml")
        path = tmp_path / "model.xml"
    elif "openvino" in request.param:
        settings = TensorSettings("openvino", 1)
    opened = open_tensors(path, settings)
    yield opened
    opened.close()
    opened.close()


def test_a_session_says_what_it_takes_and_gives(session):
    rows, ids = TensorPort("rows", "float32", (None, 3)), TensorPort("ids", "int64", (None, 1))
    assert dict(session.inputs) == {"rows": rows, "ids": ids}
    assert list(session.outputs) == ["sum", "ids_twice"]
    assert session.outputs["ids_twice"].dtype == "int64"
    assert (str(rows), session.describe()["device"]) == ("float32[?, 3]", "cpu")


def test_outputs_are_the_callers_own(session):
    first = run_tensors(session, {"rows": ROWS, "ids": IDS})
    kept = {name: array.copy() for name, array in first.items()}
    run_tensors(session, {"rows": -ROWS[:1], "ids": IDS[:1] * 7})
    np.testing.assert_array_equal(kept["sum"], ROWS + IDS)
    np.testing.assert_array_equal(kept["ids_twice"], 2 * IDS)
    assert all((first[name] == kept[name]).all() for name in kept)


def test_only_the_outputs_that_are_wanted_come(session):
    assert list(run_tensors(session, {"rows": ROWS, "ids": IDS}, ["ids_twice"])) == ["ids_twice"]


def test_arrays_that_are_not_contiguous_are_taken(session):
    given = run_tensors(session, {"rows": np.asfortranarray(ROWS), "ids": IDS[::-1]})
    np.testing.assert_array_equal(given["sum"], ROWS + IDS[::-1])


@pytest.mark.parametrize(
    ("inputs", "field", "said"),
    [
        ({"rows": ROWS}, "ids", r"input ids is missing; it is int64\[\?, 1\]"),
        ({"rows": ROWS, "id": IDS}, "id", r"no input id; did you mean ids\?"),
        ({"rows": ROWS, "zzz": IDS}, "zzz", r"no input zzz; it has: rows, ids"),
        ({"rows": ROWS.astype(np.float64), "ids": IDS}, "rows", r"must be float32\[.*its type is float64"),
        ({"rows": ROWS[0], "ids": IDS}, "rows", r"it has 1 axes"),
        ({"rows": ROWS[:, :2], "ids": IDS}, "rows", r"float32\[\?, 3\], but its shape is \[2, 2\]"),
    ],
)
def test_a_request_that_does_not_fit_names_its_tensor(session, inputs, field, said):
    with pytest.raises(RequestError, match=said) as caught:
        run_tensors(session, inputs)
    assert caught.value.field == field


def test_an_output_that_is_not_there_is_named(session):
    with pytest.raises(RequestError, match=r"no output sums; did you mean sum\?"):
        run_tensors(session, {"rows": ROWS, "ids": IDS}, ["sums"])


def test_shapes_that_do_not_go_together_are_the_requests_fault(session):
    with pytest.raises(RequestError, match="The shapes of these inputs do not go together"):
        run_tensors(session, {"rows": np.repeat(ROWS, 2, 0), "ids": np.repeat(IDS, 3, 0)})
    run_tensors(session, {"rows": ROWS, "ids": IDS})  # and the session goes on


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_a_number_alone_has_no_axes(engine, tmp_path):
    number = ir.val("number", ir.DataType.FLOAT, [])
    node = ir.node("Neg", [number])
    out = node.outputs[0]
    out.name, out.dtype, out.shape = "less", ir.DataType.FLOAT, ir.Shape([])
    graph = ir.Graph([number], [out], nodes=[node], opset_imports={"": 20}, name="negated")
    ir.save(ir.Model(graph, ir_version=10), tmp_path / "model.onnx")
    session = open_tensors(tmp_path / "model.onnx", TensorSettings(engine))
    given = run_tensors(session, {"number": np.array(3, np.float32)})["less"]
    assert (given.shape, float(given)) == ((), -3.0)


# What cannot be opened


def test_a_type_that_numpy_lacks_is_refused_when_the_model_is_opened(tmp_path):
    path = write_model(tmp_path, ir.DataType.BFLOAT16)
    with pytest.raises(ModelError, match=r"input rows is of type bf16, which numpy does not have"):
        open_tensors(path, TensorSettings("openvino"))


def test_a_kind_of_file_that_nothing_opens_is_named():
    with pytest.raises(ModelError, match=r"model\.pt: tensor models are opened from \.xml, \.onnx"):
        open_tensors(Path("model.pt"))


def test_an_engine_that_does_not_open_the_file_is_named():
    with pytest.raises(ModelError, match=r"onnxruntime does not open \.xml; openvino does"):
        open_tensors(Path("model.xml"), TensorSettings("onnxruntime"))


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_a_file_that_is_no_model_is_named(engine, tmp_path):
    with pytest.raises(ModelError, match=r"absent\.onnx does not exist"):
        open_tensors(tmp_path / "absent.onnx", TensorSettings(engine))
    (tmp_path / "model.onnx").write_text("<html>")
    with pytest.raises(ModelError, match=r"model\.onnx: .+"):
        open_tensors(tmp_path / "model.onnx", TensorSettings(engine))
