"""Products of few columns in float32: the same bits for each instruction set and beside any other rows."""

from __future__ import annotations

import ctypes
from itertools import pairwise

import numpy as np
from kernel_library import INSTRUCTION_SETS, kernel_library


def product(library, x, weight, splits=1):
    """By blocks of 16 columns, split in `splits` parts."""
    (m, k), n = x.shape, weight.shape[1]
    y, size, pointer = np.full((m, n), np.nan, np.float32), ctypes.c_size_t, ctypes.c_void_p
    ends = np.linspace(0, n // 16, splits + 1).astype(int).tolist()
    for begin, end in pairwise(ends):
        library.bl_multiply_floats(
            size(m), size(n), size(k), pointer(x.ctypes.data), size(k), pointer(weight.ctypes.data),
            size(begin), size(end), pointer(y.ctypes.data),
        )  # fmt: skip
    return y


def test_sums_are_exact_to_float32_and_the_same_on_each_instruction_set():
    library, rng = kernel_library(), np.random.default_rng(0)
    usual = library.bl_isa()
    for m, n, k in ((1, 16, 5), (7, 48, 128), (64, 128, 300), (3, 240, 2048)):
        x, weight = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
        results = []
        for name in INSTRUCTION_SETS:
            if library.bl_set_isa(name.encode()):
                results.append(product(library, x, weight))
        assert library.bl_set_isa(usual)
        exact = x.astype(np.float64) @ weight
        np.testing.assert_allclose(results[0], exact, atol=1e-6 * k**0.5 + 1e-6 * np.abs(exact).max())
        assert all(np.array_equal(results[0], other) for other in results)
        for count in (1, 2, m):
            assert np.array_equal(product(library, x[:count], weight, splits=3), results[0][:count])
