"""Products of rows that are routed to experts, beside those of each expert alone."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from kernel_library import (
    E2M1,
    E8M0,
    F16,
    F32,
    INSTRUCTION_SETS,
    MIDDLE,
    ExpertRows,
    Format,
    PackedWeight,
    activated_by,
    empty,
    kernel_library,
)
from linear_model import expected, random_weight
from mixtures import activated

from pipelines.onnx_format.experts_format import ACTIVATIONS

EXPERTS, TOKENS, N, K = 6, 40, 72, 160


def routed(rng, per_token):
    """Sorted rows: their tokens, and a list of (expert, begin, end)."""
    chosen = np.stack([rng.permutation(EXPERTS - 1)[:per_token] for _ in range(TOKENS)])  # none for the last
    tokens = np.repeat(np.arange(TOKENS), per_token)[np.argsort(chosen.ravel(), kind="stable")]
    counts = np.bincount(chosen.ravel(), minlength=EXPERTS)
    ends = np.cumsum(counts)
    spans = [(e, int(end - count), int(end)) for e, (count, end) in enumerate(zip(counts, ends, strict=True))]
    return tokens.astype(np.int64), (ExpertRows * len(spans))(*spans)


def by_parts(library, weights, levels, rows, parts):
    """All sorted rows [rows, N]; `rows` is (x, tokens, list)."""
    x, tokens, spans = rows
    packed = [weight.packed(library) for weight in weights]
    packed_weights = [
        PackedWeight(weight.format, array.ctypes.data) for weight, array in zip(weights, packed, strict=True)
    ]
    packed_weights = (PackedWeight * len(packed_weights))(*packed_weights)
    rounded = empty(library.bl_rounded_bytes(levels, len(tokens), K))
    y = np.full((len(tokens), N), np.nan, np.float32)
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    for part in range(parts):
        library.bl_round_experts(
            spans, size(len(spans)), levels, F32, size(K), pointer(x.ctypes.data), size(K),
            pointer(tokens.ctypes.data), size(part), size(parts), pointer(rounded.ctypes.data),
        )  # fmt: skip
    for part in range(parts):
        library.bl_multiply_experts(
            packed_weights, spans, size(len(spans)), levels, F32, size(N), size(K), pointer(rounded.ctypes.data),
            size(part), size(parts), pointer(y.ctypes.data), size(N),
        )  # fmt: skip
    return y


@pytest.mark.parametrize("levels", [1, 2])
def test_each_row_is_multiplied_by_its_expert_however_the_work_is_split(levels):
    library, rng = kernel_library(), np.random.default_rng(0)
    forms = [Format(4, 32, F16, MIDDLE), Format(4, 32, E8M0, MIDDLE, E2M1), Format(8, 16, F32, MIDDLE)]
    weights = [random_weight(forms[expert % 3], N, K, rng) for expert in range(EXPERTS)]
    x = rng.standard_normal((TOKENS, K)).astype(np.float32)
    for per_token in (1, 3):
        tokens, spans = routed(rng, per_token)
        wanted = np.concatenate(
            [expected(weights[span.expert], levels, x[tokens[span.begin : span.end]]) for span in spans]
        )
        for parts in (1, 2, 7, 100):
            assert np.array_equal(by_parts(library, weights, levels, (x, tokens, spans), parts), wanted)


@pytest.mark.parametrize("has_gate", [True, False])
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_activations_are_those_of_numpy_and_the_same_on_each_instruction_set(kind, has_gate):
    if kind == "clamped" and not has_gate:
        pytest.skip("it has a gate")
    library, rng = kernel_library(), np.random.default_rng(0)
    gate, up = (rng.standard_normal(997).astype(np.float32) * 20 for _ in range(2))
    gate = gate if has_gate else None
    first = library.bl_isa()
    results = []
    for name in INSTRUCTION_SETS:
        if library.bl_set_isa(name.encode()):
            results.append(activated_by(library, kind, gate, up))
    library.bl_set_isa(first)
    with np.errstate(over="ignore"):
        expected = activated(kind, None if gate is None else gate.astype(np.float64), up.astype(np.float64))
    np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=1e-5)
    assert all(np.array_equal(results[0], other) for other in results)
