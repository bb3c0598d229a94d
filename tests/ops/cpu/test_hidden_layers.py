"""Hidden layers of networks, of one or of experts, beside their products alone."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from kernel_library import (
    E2M1,
    E8M0,
    F16,
    F32,
    INTEGER,
    MIDDLE,
    Activation,
    ExpertRows,
    Format,
    Hidden,
    PackedWeight,
    activated_by,
    empty,
    kernel_library,
)
from linear_model import expected, random_weight

from pipelines.onnx_format.experts_format import ACTIVATIONS

K = 96
FORMATS = (Format(4, 32, F16, MIDDLE), Format(8, 0, F32, INTEGER), Format(4, 32, E8M0, MIDDLE, E2M1))


class Layer:
    """Hidden layers with `n` numbers of as many experts as `count`, with gates and biases or without."""

    def __init__(self, library, n, count=1, is_gated=True):
        self.library, rng = library, np.random.default_rng(n + is_gated)
        self.weights, self.biases, self.memory, fields = {}, {}, [], {}
        for first, name in enumerate(("up", "gate")[: 1 + is_gated]):
            weights = [random_weight(FORMATS[(first + at) % 3], n, K, rng) for at in range(count)]
            packed = [weight.packed(library) for weight in weights]
            addresses = [
                (weight.format, data.ctypes.data) for weight, data in zip(weights, packed, strict=True)
            ]
            array = (PackedWeight * count)(*addresses)
            self.weights[name], fields[name] = weights, ctypes.addressof(array)
            self.memory += [array, packed]
        self.biases[name] = rng.standard_normal((count, n)).astype(np.float32)  # of one of both
        fields[f"{name}_bias"] = self.biases[name].ctypes.data
        self.struct = Hidden(Activation(ACTIVATIONS.index("gelu_tanh"), 0.0, 0.0), **fields)

    def expected(self, levels, x, expert=0):
        values = {"gate": [None] * len(x)}
        for name, weights in self.weights.items():
            bias = self.biases[name][expert] if name in self.biases else np.float32(0)
            values[name] = expected(weights[expert], levels, x) + bias
        pairs = zip(values["gate"], values["up"], strict=True)
        return np.stack([activated_by(self.library, "gelu_tanh", *pair) for pair in pairs])


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize(("n", "is_gated"), [(40, True), (128, True), (40, False)])
def test_a_hidden_layer_is_its_products_and_their_activation(library, levels, n, is_gated):
    rng, blocks = np.random.default_rng(n), -(-n // 16)
    layer = Layer(library, n, is_gated=is_gated)
    for m in (0, 1, 5, 16, 17, 300):
        x = rng.standard_normal((m, K)).astype(np.float32)
        rounded, y = empty(library.bl_rounded_bytes(levels, m, K)), np.full((m, n + 3), np.nan, np.float32)
        library.bl_round(levels, F32, m, K, x.ctypes.data, K, 0, -(-m // 16), rounded.ctypes.data)
        asked = (ctypes.byref(layer.struct), levels, m, n, K, rounded.ctypes.data)
        for span in ((0, 1), (1, blocks)):
            library.bl_multiply_hidden(*asked, *span, y.ctypes.data, n + 3)
        assert not m or np.array_equal(y[:, :n], layer.expected(levels, x))
        assert np.isnan(y[:, n:]).all()


@pytest.mark.parametrize("is_gated", [True, False])
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_rows_of_experts_have_the_hidden_layers_of_their_experts(is_gated, parts):
    library, n, spans = kernel_library(), 72, [(2, 0, 1), (0, 1, 20), (1, 20, 43)]
    layer = Layer(library, n, count=3, is_gated=is_gated)
    x = np.random.default_rng(1).standard_normal((43, K)).astype(np.float32)
    rows, size = (ExpertRows * 3)(*spans), ctypes.c_size_t
    rounded, y = empty(library.bl_rounded_bytes(2, 43, K)), np.full((43, n), np.nan, np.float32)
    for part in range(parts):
        span = (size(part), size(parts), ctypes.c_void_p(rounded.ctypes.data))
        x_at = ctypes.c_void_p(x.ctypes.data)
        library.bl_round_experts(rows, size(3), 2, F32, size(K), x_at, size(K), None, *span)
    for part in range(parts):
        asked = (ctypes.byref(layer.struct), rows, 3, 2, n, K, rounded.ctypes.data)
        library.bl_multiply_hidden_experts(*asked, part, parts, y.ctypes.data, n)
    wanted = [layer.expected(2, x[begin:end], expert) for expert, begin, end in spans]
    assert np.array_equal(y, np.concatenate(wanted))
