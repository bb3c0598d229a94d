"""The CPU kernels against a numpy model, to the last bit: formats, levels, instruction sets, types, sizes."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest
from every_case import every_case
from kernel_library import (
    BF16,
    E2M1,
    E8M0,
    F16,
    F32,
    INSTRUCTION_SETS,
    INTEGER,
    MIDDLE,
    MINIMUM,
    TWO_LEVEL,
    Format,
    kernel_library,
    multiply,
)
from linear_model import expected, fma, random_weight

GROUPS = (16, 32, 64, 128, 0)
FORMATS = [
    *[Format(bits, group, F16, MIDDLE) for bits in (2, 4, 6, 8) for group in GROUPS],
    *[
        Format(bits, group, F32, zeros)
        for bits in (2, 4, 8)
        for group in GROUPS
        for zeros in (INTEGER, MINIMUM)
    ],
    *[Format(4, 32, F16, zeros) for zeros in (INTEGER, MINIMUM)],
    *[Format(4, group, scales, MIDDLE, E2M1) for group in (16, 32) for scales in (E8M0, F16)],
    Format(8, 32, E8M0, MIDDLE),
    Format(4, 32, TWO_LEVEL, MINIMUM),
    Format(6, 16, TWO_LEVEL, MIDDLE),
    Format(2, 16, TWO_LEVEL, MINIMUM),
    Format(8, 32, TWO_LEVEL, MINIMUM),
]
Q4_0 = Format(4, 32, F16, MIDDLE)


def random_rows(m, k, seed=0):
    """Rows of sizes from 1e-3 to 1e3, with a segment of zeros."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((m, k)) * 10.0 ** rng.integers(-3, 4, (m, 1))
    x[:, 32:64] *= rng.integers(0, 2, (m, 1))
    return x.astype(np.float32)


def same(a, b):
    """Equal in all bits; NaN equals NaN."""
    return np.array_equal(a.astype(np.float32), b.astype(np.float32), equal_nan=True)


@every_case("levels", [1, 2])
@every_case("form", FORMATS)
def test_each_format_is_the_model_to_the_last_bit(library, form, levels):
    for n, k, m in ((40, 768, 21), (17, 256 if form.scales == TWO_LEVEL else 384, 1)):
        weight = random_weight(form, n, k, np.random.default_rng(k))
        x = random_rows(m, k)
        assert same(multiply(library, weight, levels, x), expected(weight, levels, x))


@every_case("levels", [1, 2])
@every_case("dtype", [np.float16, ml_dtypes.bfloat16])
def test_rows_in_halves_are_read_and_written_rounded_once(library, dtype, levels):
    weight = random_weight(Q4_0, 40, 512, np.random.default_rng(1))
    x = random_rows(19, 512).astype(dtype)
    wanted = expected(weight, levels, x.astype(np.float32))
    with np.errstate(over="ignore"):
        wanted = wanted.astype(dtype)
    kind = F16 if dtype is np.float16 else BF16
    y = multiply(library, weight, levels, x.view(np.uint16) if kind == BF16 else x, kind)
    assert same(y.view(dtype), wanted)


@every_case("levels", [1, 2])
def test_a_row_does_not_depend_on_other_rows_nor_on_how_the_work_is_split(library, levels):
    weight = random_weight(Q4_0, 200, 640, np.random.default_rng(2))
    x = random_rows(150, 640)
    alone = np.concatenate([multiply(library, weight, levels, x[i : i + 1]) for i in range(len(x))])
    for m in (2, 3, 5, 7, 16, 17, 150):
        for parts in (1, 3, 13):
            assert same(multiply(library, weight, levels, x[:m], parts=parts), alone[:m])


@every_case("form", [Q4_0, Format(8, 0, F32, MIDDLE), Format(6, 16, F16, MIDDLE)])
def test_any_number_of_channels_rows_and_weights(library, form):
    rng = np.random.default_rng(3)
    step = form.group or 1
    for n, m in ((1, 1), (15, 2), (16, 70), (33, 9), (7, 0)):
        k = step * int(rng.integers(1, 600 // step))
        weight = random_weight(form, n, k, rng)
        wide = random_rows(m, k + 5)
        x = wide[:, 2 : k + 2]  # rows with a stride
        assert same(multiply(library, weight, 2, x), expected(weight, 2, x))


@every_case("levels", [1, 2])
@every_case("zeros", [MIDDLE, MINIMUM, INTEGER])
def test_numbers_that_are_not_finite_make_their_row_nan_alone(library, zeros, levels):
    weight = random_weight(Format(4, 32, F16, zeros), 20, 128, np.random.default_rng(4))
    x = random_rows(6, 128)
    x[1, 5], x[2, 77], x[3, 127] = np.inf, -np.inf, np.nan
    y = multiply(library, weight, levels, x)
    assert np.isnan(y[1:4]).all()
    assert same(y, expected(weight, levels, x))


@every_case("levels", [1, 2])
def test_the_smallest_and_largest_numbers(library, levels):
    weight = random_weight(Format(4, 32, F32, MIDDLE), 20, 64, np.random.default_rng(5))
    x = np.zeros((7, 64), np.float32)
    for row, size in enumerate((0, 1e-45, 2.0**-101, 2.0**-100, 1e-20, 3.4e38, -3.4e38)):
        x[row, row * 9] = size
        x[row, row * 9 + 1] = -size / 3
    y = multiply(library, weight, levels, x)
    assert not y[:3].any()
    assert y[3:].all(axis=1).any()
    assert same(y, expected(weight, levels, x))


def test_two_levels_are_nearer_to_float_sums_by_two_orders(library):
    weight = random_weight(Q4_0, 64, 2048, np.random.default_rng(6))
    x = np.random.default_rng(7).standard_normal((4, 2048)).astype(np.float32)
    scales = weight.scales.view(np.float16).reshape(64, 64).astype(np.float64)
    codes = np.stack([weight.codes & 15, weight.codes >> 4], -1).reshape(64, 64, 32) - 8.0
    exact = x.astype(np.float64) @ (codes * scales[..., None]).reshape(64, 2048).T
    one, two = (np.abs(multiply(library, weight, levels, x) - exact).max() for levels in (1, 2))
    size = np.abs(exact).mean()
    assert 1e-3 < one / size < 3e-2
    assert two / size < 1e-4


def test_packed_bytes_are_the_same_on_each_instruction_set():
    library = kernel_library()
    usual = library.bl_isa()
    for form in FORMATS:
        weight = random_weight(form, 40, 256, np.random.default_rng(8))
        packed = {}
        for name in INSTRUCTION_SETS:
            if library.bl_set_isa(name.encode()):
                packed[name] = weight.packed(library, parts=2).tobytes()
        assert len(set(packed.values())) <= 1
    assert library.bl_set_isa(usual)


@pytest.mark.parametrize(
    ("form", "k", "problem"),
    [
        (Format(3, 32, F16, MIDDLE), 64, "bits"),
        (Format(4, 48, F16, MIDDLE), 96, "groups"),
        (Format(4, -1, F16, MIDDLE), 96, "groups"),
        (Format(4, 32, BF16, MIDDLE), 64, "type"),
        (Format(4, 32, 9, MIDDLE), 64, "type"),
        (Format(4, 32, F16, 3), 64, "zeros"),
        (Format(4, 32, F16, -1), 64, "zeros"),
        (Format(4, 32, F16, MIDDLE, 2), 64, "table"),
        (Format(8, 32, F16, MIDDLE, E2M1), 64, "E2M1"),
        (Format(4, 32, E8M0, MINIMUM), 64, "powers"),
        (Format(4, 32, TWO_LEVEL, INTEGER), 256, "two levels"),
        (Format(4, 0, TWO_LEVEL, MINIMUM), 256, "two levels"),
        (Format(4, 32, TWO_LEVEL, MINIMUM), 128, "256"),
        (Format(4, 64, F16, MIDDLE), 96, "multiple"),
        (Format(4, 0, F16, MIDDLE), 33, "bytes"),
        (Format(2, 0, F16, MIDDLE), 34, "bytes"),
        (Q4_0, 0, "from 1"),
        (Q4_0, 1 << 40, "from 1"),
    ],
)
def test_what_is_no_weight_is_refused_with_the_reason(form, k, problem):
    reason = kernel_library().bl_check(ctypes.byref(form), 16, k)
    assert reason is not None
    assert problem in reason.decode()


def test_an_instruction_set_that_is_unknown_is_not_set():
    library = kernel_library()
    assert not library.bl_set_isa(b"avx1024")
    assert not library.bl_set_isa(None)
    assert library.bl_isa().decode() in (*INSTRUCTION_SETS, "none")


def test_the_fused_product_of_the_model_is_rounded_once():
    """Sums that float64 rounds to the middle of two float32 numbers, and those of random numbers."""
    a, b = np.float32(1 + 2.0**-12), np.float32(1 + 2.0**-12)
    assert fma(a, b, np.float32(0)) == np.float32(float(a) * float(b))
    assert fma(np.float32(1), np.float32(2.0**-60), np.float32(1 + 2.0**-23) + 0) == np.float32(1 + 2.0**-23)
    tie = fma(np.float32(2.0**-24), np.float32(1 + 2.0**-23), np.float32(1))
    assert tie == np.float32(1 + 2.0**-23)
