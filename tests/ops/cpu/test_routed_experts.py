"""Products of rows that are routed to experts, beside those of each expert alone."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from kernel_library import E2M1, E8M0, F16, F32, MIDDLE, Format, empty, kernel_library
from linear_model import expected, random_weight

EXPERTS, TOKENS, N, K = 6, 40, 72, 160


class ExpertRows(ctypes.Structure):
    """`bl_expert_rows`."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("expert", "begin", "end")]


def routed(rng, per_token):
    """Sorted rows: their tokens, and a list of (expert, begin, end)."""
    chosen = np.stack([rng.permutation(EXPERTS - 1)[:per_token] for _ in range(TOKENS)])  # none for the last
    tokens = np.repeat(np.arange(TOKENS), per_token)[np.argsort(chosen.ravel(), kind="stable")]
    counts = np.bincount(chosen.ravel(), minlength=EXPERTS)
    ends = np.cumsum(counts)
    spans = [(e, int(end - count), int(end)) for e, (count, end) in enumerate(zip(counts, ends, strict=True))]
    return tokens.astype(np.int64), (ExpertRows * len(spans))(*spans)


def by_parts(library, form, weights, levels, rows, parts):
    """All sorted rows [rows, N]; `rows` is (x, tokens, list)."""
    x, tokens, spans = rows
    packed = empty(sum(len(weight.packed(library)) for weight in weights))
    packed[:] = np.concatenate([weight.packed(library) for weight in weights])
    rounded = empty(library.bl_rounded_bytes(levels, len(tokens), K))
    y = np.full((len(tokens), N), np.nan, np.float32)
    size, pointer, at = ctypes.c_size_t, ctypes.c_void_p, ctypes.byref
    for part in range(parts):
        library.bl_round_experts(
            spans, size(len(spans)), levels, F32, size(K), pointer(x.ctypes.data), size(K),
            pointer(tokens.ctypes.data), size(part), size(parts), pointer(rounded.ctypes.data),
        )  # fmt: skip
    for part in range(parts):
        library.bl_multiply_experts(
            at(form), spans, size(len(spans)), levels, F32, size(N), size(K), pointer(rounded.ctypes.data),
            pointer(packed.ctypes.data), size(part), size(parts), pointer(y.ctypes.data), size(N),
        )  # fmt: skip
    return y


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("form", [Format(4, 32, F16, MIDDLE), Format(4, 32, E8M0, MIDDLE, E2M1)], ids=str)
def test_each_row_is_multiplied_by_its_expert_however_the_work_is_split(form, levels):
    library, rng = kernel_library(), np.random.default_rng(0)
    weights = [random_weight(form, N, K, rng) for _ in range(EXPERTS)]
    x = rng.standard_normal((TOKENS, K)).astype(np.float32)
    for per_token in (1, 3):
        tokens, spans = routed(rng, per_token)
        wanted = np.concatenate(
            [expected(weights[span.expert], levels, x[tokens[span.begin : span.end]]) for span in spans]
        )
        for parts in (1, 2, 7, 100):
            assert np.array_equal(by_parts(library, form, weights, levels, (x, tokens, spans), parts), wanted)
