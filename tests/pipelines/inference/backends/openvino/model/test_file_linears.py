"""Linear layers whose weights the kernels read from a model's file: the same numbers as from constants in memory,
and errors that name the file where it is another one by then.
"""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.block_linears import use_block_linears
from pipelines.inference.backends.openvino.model.mapped_files import MappedFile

INNER, ROWS = 256, 19
FORMS = {
    "int8": ("i8", 0, "none", "f16"),
    "int8, asymmetric": ("u8", 0, "integers", "f16"),
    "int8, f32 scales": ("i8", 0, "none", "f32"),
    "int4": ("i4", 128, "none", "f16"),
    "int4, asymmetric": ("u4", 64, "integers", "f16"),
    "float zero points": ("u4", 32, "floats", "f32"),
    "the middle": ("u4", 32, "middle", "f32"),
}
"""Name → type of the codes, weights to a scale (0: a row), zero points, type of scales."""


def constant(rng, kind, shape):
    """Random numbers of a type of codes."""
    bits = int(kind[1:])
    flat = rng.integers(0, 256, int(np.prod(shape)) * bits // 8, np.uint8)
    flat = flat.view(np.int8) if kind == "i8" else flat
    return ov.op.Constant(ov.Tensor(flat, shape, getattr(ov.Type, kind)), shared_memory=False)


def weight(rng, outer, codes, group, zeros, scales):
    """A weight [outer, INNER] in float32, as graphs have it."""
    shape = [outer, INNER] if group == 0 else [outer, INNER // group, group]
    counts = [*shape[:-1], 1]
    result = ops.convert(constant(rng, codes, shape), scales)
    if zeros == "integers":
        result = ops.subtract(result, ops.convert(constant(rng, codes, counts), scales))
    elif zeros == "floats":
        result = ops.subtract(result, ops.constant(rng.uniform(4, 9, counts).astype(np.float32)))
    elif zeros == "middle":
        middle = ov.op.Constant(ov.Tensor(np.full(1, 8, np.uint8), [1], ov.Type.u4), shared_memory=False)
        result = ops.subtract(result, ops.convert(middle, scales))
    dtype = np.float16 if scales == "f16" else np.float32
    result = ops.multiply(result, ops.constant((rng.uniform(1, 2, counts) / 64).astype(dtype)))
    if group:
        result = ops.reshape(result, ops.constant([outer, INNER]), False)
    return ops.convert(result, "f32") if scales == "f16" else result


def stored(folder, *weights, seed=3):
    """The path of a model of linear layers of the same rows."""
    rng = np.random.default_rng(seed)
    rows = ops.parameter([-1, INNER], np.float32)
    linears = [ops.matmul(rows, weight(rng, *form), False, True) for form in weights]
    ov.save_model(ov.Model(linears, [rows]), folder / "model.xml", compress_to_fp16=False)
    return folder / "model.xml"


def read(path, kernels, in_file=True):
    """The model, whose linear layers the kernels compute, and how many of each operator it has."""
    file = MappedFile(path.with_suffix(".bin"))
    model = ov.Core().read_model(path.read_bytes(), ov.Tensor(file.bytes, shared_memory=True))
    use_block_linears(model, kernels(2), files=[file] if in_file else ())
    return model, Counter(node.get_type_name() for node in model.get_ops()), file


def compiled(model):
    return ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})


def some_rows(count=ROWS):
    return np.random.default_rng(2).normal(size=(count, INNER)).astype(np.float32)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("outer", [40, 1025])
def test_a_weight_in_a_file_gives_the_numbers_of_constants(kernels, tmp_path, form, outer):
    path = stored(tmp_path, (outer, *FORMS[form]))
    from_file, kinds, _ = read(path, kernels)
    assert (kinds["FileLinear"], kinds["BlockLinear"]) == (1, 0)
    from_memory, kinds, _ = read(path, kernels, in_file=False)
    assert (kinds["FileLinear"], kinds["BlockLinear"]) == (0, 1)
    expected = compiled(from_memory)(some_rows())[0].copy()
    assert np.abs(expected).max() > 0
    np.testing.assert_array_equal(compiled(from_file)(some_rows())[0], expected)


def test_weights_of_several_forms_are_one_operator(kernels, tmp_path):
    path = stored(tmp_path, *((20 + number, *form) for number, form in enumerate(FORMS.values())))
    from_file, kinds, _ = read(path, kernels)
    assert kinds["FileLinear"] == 1
    assert "Constant" not in kinds
    from_memory, _, _ = read(path, kernels, in_file=False)
    wanted = [value.copy() for value in compiled(from_memory)(some_rows()).values()]
    for result, expected in zip(compiled(from_file)(some_rows()).values(), wanted, strict=True):
        np.testing.assert_array_equal(result, expected)


def test_a_stored_graph_reads_the_same_file(kernels, tmp_path):
    path = stored(tmp_path, (40, *FORMS["int8"]), (7, *FORMS["int4, asymmetric"]))
    model, _, _ = read(path, kernels)
    ov.save_model(model, tmp_path / "again.xml", compress_to_fp16=False)
    core = ov.Core()
    kernels(2).library.add_to(core)
    again = core.compile_model(
        core.read_model(tmp_path / "again.xml"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    for result, expected in zip(
        again(some_rows()).values(), compiled(model)(some_rows()).values(), strict=True
    ):
        np.testing.assert_array_equal(result, expected)


def longer(file):
    with file.open("ab") as end:
        end.write(b"0")


def later(file):
    os.utime(file, ns=(1, 1))


def removed(file):
    file.unlink()


@pytest.mark.parametrize(
    ("change", "says"), [(longer, "has changed"), (later, "has changed"), (removed, "No such file")]
)
def test_a_file_that_changed_before_it_was_packed_is_an_error_with_its_name(kernels, tmp_path, change, says):
    path = stored(tmp_path, (40, *FORMS["int8"]))
    model, _, _ = read(path, kernels)
    change(path.with_suffix(".bin"))
    with pytest.raises(RuntimeError, match=rf"model\.bin {says}"):
        compiled(model)(some_rows())


def test_a_file_may_be_replaced_once_it_was_packed(kernels, tmp_path):
    path = stored(tmp_path, (40, *FORMS["int8"]))
    model, _, _ = read(path, kernels)
    run = compiled(model)
    expected = run(some_rows())[0].copy()
    path.with_suffix(".bin").unlink()
    np.testing.assert_array_equal(run(some_rows())[0], expected)


@pytest.mark.parametrize("shape", [(1, INNER), (INNER, 1)])
def test_scales_of_columns_in_a_file_are_left_to_openvino(kernels, tmp_path, shape):
    """The weight is square: a count of scales does not tell columns from rows."""
    rng = np.random.default_rng(3)
    scales = ops.constant(rng.uniform(0.01, 0.5, shape).astype(np.float32))
    product = ops.multiply(ops.convert(constant(rng, "i8", [INNER, INNER]), "f32"), scales)
    rows = ops.parameter([-1, INNER], np.float32)
    path = tmp_path / "model.xml"
    ov.save_model(ov.Model([ops.matmul(rows, product, False, True)], [rows]), path, compress_to_fp16=False)
    expected = compiled(ov.Core().read_model(path))(some_rows())[0].copy()
    model, kinds, _ = read(path, kernels)
    assert kinds["FileLinear"] == int(shape[0] != 1)
    np.testing.assert_allclose(compiled(model)(some_rows())[0], expected, atol=1e-2 * np.abs(expected).max())


def test_scales_within_groups_are_left_to_openvino(kernels, tmp_path):
    """A row has as many groups as a group has weights."""
    rng, size = np.random.default_rng(3), 32
    codes = ops.convert(constant(rng, "i8", [40, size, size]), "f32")
    scales = ops.constant(rng.uniform(0.01, 0.5, (40, 1, size)).astype(np.float32))
    weight = ops.reshape(ops.multiply(codes, scales), ops.constant([40, size * size]), False)
    rows = ops.parameter([-1, size * size], np.float32)
    path = tmp_path / "model.xml"
    ov.save_model(ov.Model([ops.matmul(rows, weight, False, True)], [rows]), path, compress_to_fp16=False)
    for in_file in (True, False):
        _, kinds, _ = read(path, kernels, in_file)
        assert kinds["FileLinear"] + kinds["BlockLinear"] == 0


def test_a_weight_of_many_pieces_is_packed_as_one(kernels, tmp_path):
    """Pieces have 32 MB of codes."""
    path = stored(tmp_path, (140_001, *FORMS["int4, asymmetric"]))
    exact = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    expected = ov.Core().compile_model(path, "CPU", exact)(some_rows(2))[0].copy()
    model, kinds, _ = read(path, kernels)
    assert kinds["FileLinear"] == 1
    np.testing.assert_allclose(compiled(model)(some_rows(2))[0], expected, atol=1e-4 * np.abs(expected).max())


PLACE = {"types": "i8 f16 none", "places": [40, 1, INNER, 0, 10240, -1]}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"types": "i8 f16"}, "types are"),
        ({"types": "f8 f16 none"}, "f8"),
        ({"types": "i8 bf16 none"}, "bf16"),
        ({"types": "i8 f16 u4"}, "zero points of u4"),
        ({"places": [40, 1, INNER, 0, 10240]}, "5 numbers"),
        ({"places": []}, "0 numbers"),
        ({"types": "i8 f16 none i8"}, "types are"),
        ({"places": [0, 1, INNER, 0, 10240, -1]}, "sizes"),
        ({"places": [40, 1, 2 * INNER, 0, 10240, -1]}, "differ in k"),
    ],
)
def test_places_that_do_not_fit_are_refused(kernels, changed, says):
    rows = ops.parameter([-1, INNER], np.float32)
    attributes = {"levels": 2, "file": "model.bin", "size": 1 << 20, "time": 1, **PLACE, **changed}
    with pytest.raises(RuntimeError, match=says):
        kernels(2).library.node("FileLinear", [rows.output(0)], attributes)


@pytest.mark.parametrize("offset", [-1, 1 << 20, (1 << 20) - 9])
def test_a_place_beyond_the_file_is_an_error(kernels, tmp_path, offset):
    file = tmp_path / "model.bin"
    file.write_bytes(bytes(1 << 20))
    place = {**PLACE, "places": [40, 1, INNER, offset, 10240, -1]}
    known = {"file": str(file), "size": 1 << 20, "time": file.stat().st_mtime_ns}
    rows = ops.parameter([-1, INNER], np.float32)
    node = kernels(2).library.node("FileLinear", [rows.output(0)], {"levels": 2, **known, **place})
    with pytest.raises(RuntimeError, match="is cut short"):
        compiled(ov.Model([node], [rows]))(some_rows())
