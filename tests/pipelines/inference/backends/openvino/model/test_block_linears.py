"""Linear layers of few bits by Braid's own kernels: which ones, what they compute, and what stays as it is."""

from __future__ import annotations

import logging

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model import operator_library
from pipelines.inference.backends.openvino.model.block_linears import use_block_linears
from pipelines.inference.backends.openvino.model.operator_library import find_kernels
from pipelines.inference.backends.openvino.open_decoder import settings_of
from pipelines.inference.contracts.decoder_settings import DecoderSettings

INNER, OUTER, ROWS = 256, 40, 19
FORMS = {
    "gguf q4_0": ("u4", 32, "middle", "f32"),
    "gguf q4_1": ("u4", 32, "floats", "f32"),
    "gguf q8_0": ("u8", 32, "middle", "f32"),
    "gguf q4_k": ("u4", 32, "floats", "products"),
    "gguf q6_k": ("u8", 16, "middle", "products"),
    "gguf q6_k, other scales": ("u8", 16, "middle", "f32"),
    "onnx int4": ("u4", 32, "middle", "f16"),
    "onnx int8": ("u8", 64, "middle", "f32"),
    "optimum int4": ("i4", 128, "none", "f16"),
    "optimum int4 asym": ("u4", 64, "integers", "f16"),
    "optimum int8": ("i8", 0, "none", "f16"),
    "optimum int8 asym": ("u8", 0, "integers", "f16"),
}
"""Who writes such weights → type of the codes, weights to a scale (0: a row), zero points, type of scales, of
which products are those of a half and an integer.
"""
PRECISION = {2: 3e-5, 1: 2e-2}
"""Levels → the largest error, as a part of the largest result."""


class Weight:
    """Random codes in one of the forms, the constants that hold them, and what they mean: float64[n, k]."""

    def __init__(self, codes, group, zeros, scales, outer=OUTER):
        rng = np.random.default_rng(1)
        self.bits, self.signed = int(codes[1:]), codes[0] == "i"
        groups = INNER // (group or INNER)
        self.shape = [outer, INNER] if group == 0 else [outer, groups, group]
        self.type, self.halves = getattr(ov.Type, codes), scales == "f16"
        limit, shift = 1 << self.bits, 1 << (self.bits - 1) if self.signed else 0
        numbers = rng.integers(0, limit, (outer, groups, INNER // groups))
        if group == 16:  # Q6_K
            numbers = numbers % 64 + 96
        self.scales = ((0.5 + rng.random((outer, groups, 1))) / 64).astype(np.float16)
        if scales == "products":
            self.scales = self.scales[:, :1] * rng.integers(1, 64, (outer, groups, 1)).astype(np.float32)
        if not self.halves:
            self.scales = self.scales.astype(np.float32)
        middle = 0 if self.signed else limit // 2
        self.zeros, points = None, np.full((outer, groups, 1), middle, np.float64)
        if zeros == "integers":
            points = rng.integers(0, limit, (outer, groups, 1)).astype(np.float64)
            self.zeros = self._constant(points.astype(np.uint8), [*self.shape[:-1], 1])
        elif zeros == "floats":
            minima = rng.integers(0, 64, (outer, groups, 1)).astype(np.float32) * self.scales[:, :1]
            self.zeros = ops.constant((minima / self.scales).astype(np.float32))
            points = self.zeros.data.astype(np.float64)
        elif zeros == "middle":
            self.zeros = self._constant(np.full(1, middle, np.uint8), [1])
        self.codes = self._constant((numbers - shift).astype(np.uint8), self.shape)
        meant = (numbers - shift - points) * self.scales.astype(np.float64)
        self.meant = meant.reshape(outer, INNER)

    def _constant(self, numbers, shape):
        """Of few bits, from one number a byte."""
        flat = numbers.reshape(-1)
        if self.bits == 4 and flat.size > 1:
            flat = (flat[0::2] & 15) | (flat[1::2] & 15) << 4
        if self.signed and self.bits == 8:
            flat = flat.view(np.int8)
        self.held = [*getattr(self, "held", []), flat]
        return ov.op.Constant(ov.Tensor(flat, shape, self.type), shared_memory=True)

    def output(self):
        """The weight as graphs have it: [n, k] in float32."""
        dtype = "f16" if self.halves else "f32"
        weight = ops.convert(self.codes, dtype)
        if self.zeros is not None:
            is_float = self.zeros.get_element_type() == ov.Type.f32
            weight = ops.subtract(weight, self.zeros if is_float else ops.convert(self.zeros, dtype))
        shape = [*self.shape[:-1], 1]
        weight = ops.multiply(weight, ops.constant(self.scales.reshape(shape)))
        if len(shape) == 3:
            weight = ops.reshape(weight, ops.constant([shape[0], INNER]), False)
        return ops.convert(weight, "f32") if self.halves else weight


def linear(weight, turned=True):
    """A model of one linear layer, `named`."""
    rows = ops.parameter([-1, INNER], np.float32)
    product = ops.matmul(rows, weight, False, turned)
    product.set_friendly_name("named")
    return ov.Model([product], [rows])


def computed(model, rows):
    return ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(rows)[0]


def some_rows(count=ROWS):
    return np.random.default_rng(2).normal(size=(count, INNER)).astype(np.float32)


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_weights_is_read_as_it_is(kernels, form, levels):
    weight = Weight(*FORMS[form])
    model = linear(weight.output())
    found = use_block_linears(model, kernels(levels))
    assert (found.count, found.linears, found.sums_rows_alike) == (1, 1, True)
    assert "named" in [each.get_friendly_name() for each in model.get_ops()]
    expected = some_rows() @ weight.meant.T
    error = np.abs(computed(model, some_rows()) - expected).max() / np.abs(expected).max()
    assert error < PRECISION[levels]
    assert levels == 2 or error > PRECISION[2], "one level is not exact"


@pytest.mark.parametrize("form", ["gguf q4_0", "optimum int8 asym"])
def test_a_row_does_not_depend_on_others(kernels, form):
    model = linear(Weight(*FORMS[form]).output())
    use_block_linears(model, kernels(2))
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    together = compiled(some_rows(64))[0].copy()
    for count in (1, 2, 17):
        np.testing.assert_array_equal(compiled(some_rows(64)[:count])[0], together[:count])


def test_several_requests_at_once_pack_a_weight_once_and_agree(kernels):
    model = linear(Weight(*FORMS["gguf q4_1"]).output())
    use_block_linears(model, kernels(2))
    compiled = ov.Core().compile_model(model, "CPU", {"NUM_STREAMS": 2})
    requests = [compiled.create_infer_request() for _ in range(4)]
    for request in requests:
        request.start_async(some_rows())
    for request in requests:
        request.wait()
    for request in requests[1:]:
        np.testing.assert_array_equal(request.results[0], requests[0].results[0])


def test_the_head_always_has_two_levels(kernels):
    weight = Weight(*FORMS["gguf q4_0"])
    model = linear(weight.output())
    head = [each for each in model.get_ops() if each.get_type_name() == "MatMul"]
    use_block_linears(model, kernels(1), head)
    expected = some_rows() @ weight.meant.T
    error = np.abs(computed(model, some_rows()) - expected).max() / np.abs(expected).max()
    assert error < PRECISION[2]


def floats():
    return ops.constant(np.ones((OUTER, INNER), np.float32))


def without_zero_points():
    """Codes of which 0 means 0, as no exporter writes them."""
    codes = ops.convert(ops.constant(np.ones((OUTER, INNER), np.uint8)), "f32")
    return ops.multiply(codes, ops.constant(np.ones((OUTER, 1), np.float32)))


def groups_of_8():
    codes = ops.convert(ops.constant(np.ones((OUTER, INNER // 8, 8), np.int8)), "f32")
    blocks = ops.multiply(codes, ops.constant(np.ones((OUTER, INNER // 8, 1), np.float32)))
    return ops.reshape(blocks, ops.constant([OUTER, INNER]), False)


@pytest.mark.parametrize("weight", [floats, without_zero_points, groups_of_8])
def test_other_weights_are_left_to_openvino(kernels, weight):
    model = linear(weight())
    before = [each.get_type_name() for each in model.get_ops()]
    found = use_block_linears(model, kernels(2))
    assert (found.count, found.linears, found.sums_rows_alike) == (0, 1, False)
    assert [each.get_type_name() for each in model.get_ops()] == before


def test_turned_weights_are_left_to_openvino(kernels):
    weight = Weight(*FORMS["optimum int8"], outer=INNER).output()
    assert use_block_linears(linear(weight, turned=False), kernels(2)).count == 0


def test_a_weight_of_two_linear_layers_is_left_to_openvino_which_packs_it_once(kernels):
    weight = Weight(*FORMS["gguf q4_0"], outer=INNER).output()
    rows = ops.parameter([-1, INNER], np.float32)
    twice = ops.matmul(ops.tanh(ops.matmul(rows, weight, False, True)), weight, False, True)
    assert use_block_linears(ov.Model([twice], [rows]), kernels(2)).count == 0


def test_rows_that_the_model_itself_rounds_are_left_to_openvino(kernels):
    rows = ops.parameter([-1, INNER], np.float32)
    bounds = [ops.constant(np.float32(each)) for each in (-1, 1, -1, 1)]
    product = ops.matmul(
        ops.fake_quantize(rows, *bounds, 256), Weight(*FORMS["optimum int8"]).output(), False, True
    )
    assert use_block_linears(ov.Model([product], [rows]), kernels(2)).count == 0


@pytest.mark.parametrize("codes", [ov.Type.u4, ov.Type.u8])
def test_constants_that_a_device_widened_are_refused(kernels, codes):
    library = kernels(2).library
    rows = ops.parameter([-1, INNER], np.float32)
    scales = ops.constant(np.ones((OUTER, INNER // 32, 1), np.float32))
    array = np.zeros(OUTER * INNER // (2 if codes == ov.Type.u4 else 1), np.uint8)
    constant = ov.op.Constant(ov.Tensor(array, [OUTER, INNER // 32, 32], codes))
    inputs = [rows.output(0), constant.output(0), scales.output(0)]
    node = library.node("BlockLinear", inputs, {"levels": 2})
    assert node.get_attributes()["codes"] == codes.to_string()
    with pytest.raises(RuntimeError, match="for i8"):
        library.node("BlockLinear", inputs, {"levels": 2, "codes": "i8"})


@pytest.mark.parametrize(
    ("attributes", "scales", "says"),
    [
        ({"levels": 3}, (OUTER, INNER // 32), "levels is 3"),
        ({"levels": 2}, (OUTER, INNER // 16), "Check"),
        ({"levels": 2}, (OUTER - 1, INNER // 32), "Check"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(kernels, attributes, scales, says):
    rows = ops.parameter([-1, INNER], np.float32)
    codes = ops.constant(np.ones((OUTER, INNER // 32, 32), np.int8))
    inputs = [rows.output(0), codes.output(0), ops.constant(np.ones(scales, np.float32)).output(0)]
    with pytest.raises(RuntimeError, match=says):
        kernels(2).library.node("BlockLinear", inputs, attributes)


def test_a_library_that_cannot_be_loaded_is_reported_once(monkeypatch, tmp_path, caplog):
    broken = tmp_path / "libbraid_openvino.so"
    broken.write_bytes(b"no library")
    monkeypatch.setattr(
        "pipelines.inference.backends.openvino.model.operator_library.kernel_library", lambda engine: broken
    )
    with caplog.at_level(logging.WARNING):
        assert find_kernels(2) is find_kernels(1) is None
    assert caplog.text.count("cannot be loaded") == 1


@pytest.mark.parametrize(
    ("line", "levels"),
    [
        ({}, 2),
        ({"kv_cache": "f32"}, 2),
        ({"activation_group": 32}, 1),
        ({"precision": "bf16", "activation_group": 32}, 1),
        ({"precision": "f32"}, None),
        ({"activation_group": 0}, None),
        ({"activation_group": 64}, None),
        ({"precision": "bf16", "activation_group": 128}, None),
        ({"device": "gpu"}, None),
        ({"device": "gpu.1", "activation_group": 32}, None),
    ],
)
def test_a_line_says_how_exact_linear_layers_are(kernels, line, levels):
    settings = settings_of(DecoderSettings(**line))
    assert levels == (None if settings.kernels is None else settings.kernels.levels)
    assert settings.precision == line.get("precision", None if line.get("activation_group") else "f32")


def test_without_kernels_a_line_means_what_it_did():
    assert settings_of(DecoderSettings()).kernels is None


@pytest.mark.parametrize("shape", [(1, INNER), (INNER, 1)])
def test_scales_of_columns_are_left_to_openvino(kernels, shape):
    """The weight is square: a count of scales does not tell columns from rows."""
    rng, size = np.random.default_rng(3), (INNER, INNER)
    codes = ops.convert(ops.constant(rng.integers(0, 255, size).astype(np.uint8)), "f32")
    scales = rng.uniform(0.01, 0.5, shape).astype(np.float32)
    zeros = ops.convert(ops.constant(np.full(1, 128, np.uint8)), "f32")
    model = linear(ops.multiply(ops.subtract(codes, zeros), ops.constant(scales)))
    expected = computed(model, some_rows()).copy()
    assert use_block_linears(model, kernels(2)).count == int(shape[0] != 1)
    np.testing.assert_allclose(computed(model, some_rows()), expected, atol=1e-2 * np.abs(expected).max())


def test_a_scale_beyond_float16_is_kept(kernels):
    """65,536 has the bits of infinity, were it a half; the others are halves."""
    rng = np.random.default_rng(4)
    codes = ops.convert(ops.constant(rng.integers(0, 255, (OUTER, INNER)).astype(np.uint8)), "f32")
    scales = np.full((OUTER, 1), 0.5, np.float32)
    scales[3] = 65536
    model = linear(ops.multiply(ops.subtract(codes, np.float32(128)), ops.constant(scales)))
    expected = computed(model, some_rows()).copy()
    use_block_linears(model, kernels(2))
    results = computed(model, some_rows())
    assert np.isfinite(results).all()
    np.testing.assert_allclose(results[:, 3], expected[:, 3], atol=1e-2 * np.abs(expected).max())


@pytest.mark.parametrize("between", [lambda rows: rows, lambda rows: ops.reshape(rows, [-1, INNER], False)])
def test_rows_that_a_model_rounds_itself_are_left_to_openvino(kernels, between):
    rows = ops.parameter([-1, INNER], np.float32)
    ends = [ops.constant(np.float32(end)) for end in (-4, 4, -4, 4)]
    weight = Weight(*FORMS["gguf q4_0"]).output()
    product = ops.matmul(between(ops.fake_quantize(rows, *ends, 256)), weight, False, True)
    assert use_block_linears(ov.Model([product], [rows]), kernels(2)).count == 0


def test_a_library_that_could_not_be_loaded_once_is_tried_again(kernels, monkeypatch):
    monkeypatch.setattr(operator_library, "_libraries", {})
    with monkeypatch.context() as patched:
        patched.setattr(operator_library.ctypes, "CDLL", failing)
        assert kernels(2) is None
    assert kernels(2) is not None


def failing(path):
    raise OSError(24, "Too many open files")
