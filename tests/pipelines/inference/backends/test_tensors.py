"""Tensors in, tensors out: both engines, what they say of a model, and requests that name their fault."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from pipelines.base.element_types import DTYPES
from pipelines.base.errors import RequestError
from pipelines.inference.backends.open_model import open_tensors
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.tensor_contract import TensorPort, run_tensors
from pipelines.inference.contracts.tensor_settings import Reshaping, TensorSettings

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
        settings = TensorSettings(engine="openvino", threads=1)
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


def test_several_threads_may_run_it(session):
    def run(number):
        rows = np.full((number % 3 + 1, 3), number, np.float32)
        found = session.run({"rows": rows, "ids": np.full((len(rows), 1), number)})
        return (found["sum"] == 2 * number).all() and (found["ids_twice"] == 2 * number).all()

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(run, range(100)))


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
    session = open_tensors(tmp_path / "model.onnx", TensorSettings(engine=engine))
    given = run_tensors(session, {"number": np.array(3, np.float32)})["less"]
    assert (given.shape, float(given)) == ((), -3.0)


# Every type of elements


def write_same(folder: Path, *dtypes: ir.DataType, operator: str = "Concat") -> Path:
    """One input and one output, which is the same, for each type: `given` and `same`, `given1` …"""
    given = [ir.val(f"given{at or ''}", dtype, ["n", "m"]) for at, dtype in enumerate(dtypes)]
    tape = ir.tape.Tape()
    same = [tape.op(operator, [one], {"axis": 0} if operator == "Concat" else None) for one in given]
    for at, (one, like) in enumerate(zip(same, given, strict=True)):
        one.name, one.dtype, one.shape = f"same{at or ''}", like.dtype, like.shape
    graph = ir.Graph(given, same, nodes=tape.nodes, opset_imports={"": 20}, name="same")
    ir.save(ir.Model(graph, ir_version=10), folder / "model.onnx")
    return folder / "model.onnx"


TYPES = {"float32": "FLOAT", "float64": "DOUBLE", "bytes": "STRING"}


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_goes_in_and_comes_out(engine, dtype, tmp_path):
    path = write_same(tmp_path, ir.DataType[TYPES.get(dtype, dtype.upper())])
    session = open_tensors(path, TensorSettings(engine=engine, threads=1))
    inputs = (
        strings("abc", "", "é", "d" * 99)
        if dtype == "bytes"
        else np.array([[0, 1], [2.5, 100]]).astype(DTYPES[dtype])
    )
    assert session.inputs["given"].dtype == session.outputs["same"].dtype == dtype
    for array in (inputs, inputs[:1, :1], inputs[:1, 1:], inputs[:0], inputs.T):  # the third: an empty string
        same = run_tensors(session, {"given": array})["same"]
        assert (same.dtype, same.shape, same.tolist()) == (array.dtype, array.shape, array.tolist())


def strings(*texts: str) -> np.ndarray:
    return np.array([text.encode() for text in texts], object).reshape(2, -1)


@pytest.mark.parametrize(
    ("engine", "text", "said"),
    [
        ("openvino", b"a\0", "given has a string that ends with a zero byte"),
        ("openvino", b"a" * (65 << 20), r"given has 4 strings, the longest of \d+ bytes; .* shorter ones"),
        ("onnxruntime", b"a\0b", "given has a string with a zero byte"),
        ("onnxruntime", b"\xff", "given has a string that is not UTF-8"),
    ],
)
def test_strings_that_an_engine_cannot_take_are_refused(engine, text, said, tmp_path):
    session = open_tensors(write_same(tmp_path, ir.DataType.STRING), TensorSettings(engine=engine, threads=1))
    array = strings("a", "b", "c", "d")
    array[1, 0] = text
    with pytest.raises(RequestError, match=said) as caught:
        run_tensors(session, {"given": array})
    assert caught.value.field == "given"


def test_an_operator_that_ends_the_process_on_strings_is_refused(tmp_path):
    path = write_same(tmp_path, ir.DataType.STRING, operator="Identity")
    with pytest.raises(ModelError, match="OpenVINO cannot compute Identity over strings; serve the model"):
        open_tensors(path, TensorSettings(engine="openvino"))


def test_onnxruntime_passes_no_strings_beside_bfloat16(tmp_path):
    path = write_same(tmp_path, ir.DataType.STRING, ir.DataType.BFLOAT16)
    with pytest.raises(ModelError, match="either strings or bfloat16; try `engine: openvino`"):
        open_tensors(path, TensorSettings(engine="onnxruntime"))
    both = {"given": strings("a", "b"), "given1": np.ones((1, 1), DTYPES["bfloat16"])}
    session = open_tensors(path, TensorSettings(engine="openvino"))
    assert run_tensors(session, both)["same"].tolist() == [[b"a"], [b"b"]]


# Shapes, batch sizes and layouts


def opened(path, **reshaping):
    settings = {"shape": None, "batch_size": None, "layout": None, **reshaping}
    return open_tensors(path, TensorSettings(threads=1, reshaping=Reshaping.of(**settings)))


def test_shapes_and_batch_sizes_are_fixed_or_free(tmp_path):
    path = write_model(tmp_path)
    one = opened(path, shape={"rows": [2, 3], "ids": [-1, 1]})
    assert [str(port) for port in one.inputs.values()] == ["float32[2, 3]", "int64[?, 1]"]
    np.testing.assert_array_equal(run_tensors(one, {"rows": ROWS, "ids": IDS})["sum"], ROWS + IDS)
    fixed = opened(path, batch_size=2)
    assert [str(port) for port in fixed.inputs.values()] == ["float32[2, 3]", "int64[2, 1]"]
    assert str(opened(path, batch_size=-1).outputs["sum"]) == "float32[?, 3]"


def test_a_layout_turns_tensors_on_their_way_in_and_out(tmp_path):
    path = write_same(tmp_path, ir.DataType.FLOAT)
    turned = opened(path, layout={"given": "HW:WH", "same": "HW:WH"}, shape={"given": [3, 2]})
    assert [str(port) for port in turned.inputs.values()] == ["float32[3, 2]"]
    np.testing.assert_array_equal(run_tensors(turned, {"given": ROWS.T})["same"], ROWS.T)
    inwards = opened(path, layout="NC:CN")
    np.testing.assert_array_equal(run_tensors(inwards, {"given": ROWS})["same"], ROWS.T)
    assert str(opened(path, layout="CN", batch_size=5).inputs["given"]) == "float32[?, 5]"


@pytest.mark.parametrize(
    ("reshaping", "said"),
    [
        ({"shape": [2, 3]}, "shape: the model has several inputs; name each. It has: rows, ids."),
        ({"shape": {"row": [2, 3]}}, "shape: the model has no `row`. It has: rows, ids."),
        ({"shape": {"rows": [2, -2]}}, "shape: .* has a length below -1"),
        ({"shape": {"ids": [-1, 2]}}, "OpenVINO cannot open"),
        ({"batch_size": 0}, "batch_size: a number from 1 on"),
        ({"batch_size": 2, "shape": {"rows": [2, 3]}}, "batch_size: `shape` holds it already"),
        ({"layout": {"r": "NC"}}, "layout: the model has no `r`"),
        ({"layout": {"rows": "NHWC:NCHW"}}, "OpenVINO cannot open"),
    ],
)
def test_what_a_model_cannot_be_made_is_named(reshaping, said, tmp_path):
    with pytest.raises(ModelError, match=said):
        opened(write_model(tmp_path), **reshaping)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"device": "cuda:0"}, "CUDAExecutionProvider|could not start"),
        ({"device": "gpu"}, "device gpu: OpenVINO sees only CPU"),
        ({"device": "gpu", "engine": "onnxruntime"}, "device gpu is run by openvino"),
        ({"device": "cuda:0", "engine": "openvino"}, "device cuda:0 is run by onnxruntime"),
        ({"precision": "bf16", "engine": "onnxruntime"}, "precision: openvino alone carries this out"),
        ({"streams": 2, "engine": "onnxruntime"}, "streams: openvino alone carries this out"),
    ],
)
def test_a_device_or_setting_that_an_engine_lacks_is_named(settings, said, tmp_path):
    with pytest.raises(ModelError, match=said):
        open_tensors(write_model(tmp_path), TensorSettings(**settings))


# What cannot be opened


def test_a_type_that_tensors_lack_is_refused_when_the_model_is_opened(tmp_path):
    path = write_same(tmp_path, ir.DataType.FLOAT8E4M3FN)
    with pytest.raises(ModelError, match=r"input given is of type f8e4m3; tensors have: bool, "):
        open_tensors(path, TensorSettings(engine="openvino"))


def test_a_kind_of_file_that_nothing_opens_is_named():
    with pytest.raises(ModelError, match=r"model\.pt: tensor models are opened from \.xml, \.onnx"):
        open_tensors(Path("model.pt"))


def test_an_engine_that_does_not_open_the_file_is_named():
    with pytest.raises(ModelError, match=r"onnxruntime does not open \.xml on cpu; openvino does"):
        open_tensors(Path("model.xml"), TensorSettings(engine="onnxruntime"))


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_a_file_that_is_no_model_is_named(engine, tmp_path):
    with pytest.raises(ModelError, match=r"absent\.onnx does not exist"):
        open_tensors(tmp_path / "absent.onnx", TensorSettings(engine=engine))
    (tmp_path / "model.onnx").write_text("<html>")
    with pytest.raises(ModelError, match=r"model\.onnx: .+"):
        open_tensors(tmp_path / "model.onnx", TensorSettings(engine=engine))
