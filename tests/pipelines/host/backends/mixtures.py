"""Nodes of routed experts with random weights, and what they compute by numpy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from pipelines.onnx_format.decoder_format import DOMAIN
from pipelines.onnx_format.experts_format import EXPERTS

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


@dataclass(frozen=True)
class Form:
    """How a weight is stored; `zeros` is None, "float32" or "packed"."""

    bits: int = 4
    block: int = 32
    zeros: str | None = None
    scales: str = "float32"
    floats: str = "float32"


@dataclass
class Mixture:
    """A layer's experts; `arrays` are the inputs of its node by name, `values` the weights as floats."""

    experts: int = 6
    width: int = 64
    inner: int = 96
    used: int = 3
    activation: str = "silu"
    table: str = "linear"
    has_gate: bool = True
    has_bias: bool = False
    forms: dict[str, Form] = field(default_factory=dict)
    seed: int = 0
    layer: int = 0

    def __post_init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.values: dict[str, np.ndarray] = {}
        rng = np.random.default_rng(self.seed)
        for name in ("up", "down", *(["gate"] if self.has_gate else [])):
            self._make(name, self.form(name), rng)

    def form(self, name: str) -> Form:
        return self.forms.get(name, self.forms.get("", Form()))

    def _make(self, name: str, form: Form, rng: np.random.Generator) -> None:
        rows, columns = (self.width, self.inner) if name == "down" else (self.inner, self.width)
        if self.has_bias:
            self.arrays[f"{name}_bias"] = rng.standard_normal((self.experts, rows)).astype(np.float32) / 4
        if not form.bits:
            floats = rng.standard_normal((self.experts, rows, columns)) * columns**-0.5
            self.arrays[name] = floats.astype(np.float32).astype(form.floats)
            self.values[name] = self.arrays[name].astype(np.float32)
            return
        shape = self.experts, rows, columns // form.block
        codes = rng.integers(0, 1 << form.bits, (*shape, form.block), np.uint8)
        largest = 4 if self._is_e2m1(form) else 1 << (form.bits - 2)
        scales = ((rng.random(shape) + 0.5) * columns**-0.5 / largest).astype(np.float16)
        self.arrays[name] = packed(codes, form.bits)
        self.arrays[f"{name}_scales"] = scales.astype(form.scales)
        zeros = self._zeros(name, form, shape, rng)
        meant = E2M1[codes] if self._is_e2m1(form) else codes.astype(np.float32) - zeros[..., None]
        self.values[name] = (meant * scales.astype(np.float32)[..., None]).reshape(
            self.experts, rows, columns
        )

    def _is_e2m1(self, form: Form) -> bool:
        return self.table == "e2m1" and form.bits == 4

    def _zeros(
        self, name: str, form: Form, shape: tuple[int, int, int], rng: np.random.Generator
    ) -> np.ndarray:
        limit = 1 << form.bits
        if form.zeros == "float32":
            self.arrays[f"{name}_zeros"] = rng.uniform(0, limit, shape).astype(np.float32)
            return self.arrays[f"{name}_zeros"]
        if form.zeros == "packed":
            zeros = rng.integers(0, limit, shape, np.uint8)
            self.arrays[f"{name}_zeros"] = packed(zeros, form.bits)
            return zeros.astype(np.float32)
        return np.full(shape, limit // 2, np.float32)

    @property
    def attributes(self) -> dict[str, object]:
        sizes = {}
        for name in ("up", "down", "gate"):
            form = self.form(name)
            sizes |= {f"{name}_bits": form.bits, f"{name}_block": form.block if form.bits else 0}
        kind = {"activation": self.activation, "table": self.table, "layer": self.layer}
        return kind | sizes | ({"alpha": 1.702, "limit": 7.0} if self.activation == "clamped" else {})

    def operands(self, prefix: str = "") -> list[ir.Value | None]:
        """The inputs of the node from the fourth on: initializers whose names begin with `prefix`."""
        names = [
            name + part for name in ("up", "down", "gate") for part in ("", "_scales", "_zeros", "_bias")
        ]
        return [self._initializer(name, prefix) for name in names]

    def _initializer(self, name: str, prefix: str) -> ir.Value | None:
        if name not in self.arrays:
            return None
        tensor = ir.tensor(self.arrays[name], name=prefix + name)
        return ir.val(prefix + name, tensor.dtype, list(tensor.shape), const_value=tensor)

    def model(self) -> ir.Model:
        """A graph of hidden_states, chosen and weights → mixed."""
        hidden = ir.val("hidden_states", ir.DataType.FLOAT, [1, "tokens", self.width])
        chosen = ir.val("chosen", ir.DataType.INT64, [1, "tokens", self.used])
        weights = ir.val("weights", ir.DataType.FLOAT, [1, "tokens", self.used])
        operands = self.operands()
        node = ir.node(EXPERTS, [hidden, chosen, weights, *operands], self.attributes, domain=DOMAIN)
        initializers = [value for value in operands if value is not None]
        mixed = node.outputs[0]
        mixed.name, mixed.dtype, mixed.shape = "mixed", ir.DataType.FLOAT, ir.Shape([1, "tokens", self.width])
        opsets = {"": 23, "com.microsoft": 1, DOMAIN: 1}
        graph = ir.Graph(
            [hidden, chosen, weights],
            [mixed],
            nodes=[node],
            initializers=initializers,
            opset_imports=opsets,
            name="mixture",
        )
        return ir.Model(graph, ir_version=10)

    def inputs(self, tokens: int, seed: int = 1) -> dict[str, np.ndarray]:
        """Random hidden states and routing, in which an expert may be chosen twice and weights be negative."""
        rng = np.random.default_rng(seed)
        return {
            "hidden_states": rng.standard_normal((1, tokens, self.width)).astype(np.float32),
            "chosen": rng.integers(0, self.experts - 1, (1, tokens, self.used)),
            "weights": rng.standard_normal((1, tokens, self.used)).astype(np.float32),
        }

    def expected(self, hidden_states: np.ndarray, chosen: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """What the node gives, in float64."""
        mixed = np.zeros(hidden_states.shape)
        for token, expert_row in enumerate(chosen[0]):
            for expert, weight in zip(expert_row, weights[0, token], strict=True):
                mixed[0, token] += weight * self.result(hidden_states[0, token], expert)
        return mixed

    def result(self, hidden_state: np.ndarray, expert: int) -> np.ndarray:
        """What one expert gives for one token."""
        up = self._linear("up", hidden_state, expert)
        gate = self._linear("gate", hidden_state, expert) if self.has_gate else None
        return self._linear("down", activated(self.activation, gate, up), expert)

    def _linear(self, name: str, values: np.ndarray, expert: int) -> np.ndarray:
        result = self.values[name][expert].astype(np.float64) @ values
        return result + self.arrays[f"{name}_bias"][expert] if self.has_bias else result


def activated(kind: str, gate: np.ndarray | None, up: np.ndarray) -> np.ndarray:
    """The activated gate times `up`, or `up` activated where there is no gate."""
    first = up if gate is None else gate
    if kind == "clamped":
        first = np.minimum(first, 7.0)
        return first / (1 + np.exp(-1.702 * first)) * (np.clip(up, -7.0, 7.0) + 1)
    result = {
        "silu": lambda x: x / (1 + np.exp(-x)),
        "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
        "gelu_tanh": lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
        "relu2": lambda x: np.maximum(x, 0) ** 2,
    }[kind](first)
    return result if gate is None else result * up


def erf(values: np.ndarray) -> np.ndarray:
    from math import erf as of_one

    return np.vectorize(of_one)(values)


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes of the last axis, the lowest bits first; the last byte may have room left."""
    in_byte = 8 // bits
    room = -codes.shape[-1] % in_byte
    padded = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, room)])
    parts = padded.reshape(*codes.shape[:-1], -1, in_byte)
    return np.bitwise_or.reduce(parts << (np.arange(in_byte, dtype=np.uint8) * bits), axis=-1).astype(
        np.uint8
    )
