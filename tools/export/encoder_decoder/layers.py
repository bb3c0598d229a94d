"""Linear layers, norms and feed-forwards of a model, written as ONNX nodes from its named weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from pipelines.onnx_format.onnx_writer import OnnxWriter
from tools.export.encoder_decoder.form import SideForm

Weights = Mapping[str, NDArray[Any]]
HEADS_FIRST = [0, 2, 1, 3]
ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "gelu": ("Gelu", {}),
    "gelu_new": ("Gelu", {"approximate": "tanh"}),
    "gelu_pytorch_tanh": ("Gelu", {"approximate": "tanh"}),
    "relu": ("Relu", {}),
    "silu": ("Sigmoid", {}),
    "swish": ("Sigmoid", {}),
    "tanh": ("Tanh", {}),
}
"""Name in config.json → operator; a sigmoid is multiplied by its input."""


class LayerWriter:
    """`weights` have Hugging Face's names; all are stored in float32."""

    def __init__(self, weights: Weights, writer: OnnxWriter, form: SideForm) -> None:
        self._weights = weights
        self._writer = writer
        self._form = form

    def linear(self, rows: ir.Value, name: str, outer: int, inner: int) -> ir.Value:
        """`inner` numbers of each row become `outer`; a layer without a bias has none."""
        linear = self._writer.op("MatMul", rows, self.store(f"{name}.weight", outer, inner, transposed=True))
        if f"{name}.bias" not in self._weights:
            return linear
        return self._writer.op("Add", linear, self.store(f"{name}.bias", outer))

    def norm(self, rows: ir.Value, name: str) -> ir.Value:
        width, kind = self._form.width, "RMSNormalization" if self._form.rms else "LayerNormalization"
        names = ("weight",) if self._form.rms else ("weight", "bias")
        stored = (self.store(f"{name}.{each}", width) for each in names)
        return self._writer.op(kind, rows, *stored, axis=-1, epsilon=self._form.epsilon)

    def part(self, state: ir.Value, norm: str, compute: Callable[[ir.Value], ir.Value]) -> ir.Value:
        """One part of a layer with the sum around it; its norm is before the part, or after the sum."""
        if self._form.norm_first:
            return self._writer.op("Add", state, compute(self.norm(state, norm)))
        return self.norm(self._writer.op("Add", state, compute(state)), norm)

    def embed(self, ids: ir.Value, table: ir.Value, at_positions: Callable[[ir.Value], ir.Value]) -> ir.Value:
        """The rows of tokens; of a table of positions `at_positions` takes what is added to them."""
        form, op, at = self._form, self._writer.op, self._form.prefix
        rows = op("Gather", table, ids)
        if form.embedding_scale != 1:
            rows = op("Mul", rows, self._writer.number(form.embedding_scale))
        if form.positions:
            places = self.store(f"{at}embed_positions.weight", form.max_context, form.width)
            rows = op("Add", rows, at_positions(places))
        return self.norm(rows, f"{at}layernorm_embedding") if form.embedding_norm else rows

    def feed_forward(self, rows: ir.Value, at: str) -> ir.Value:
        """The last part of a layer, whose weights' names begin with `at`."""
        width, inner = self._form.width, self._form.inner
        fed = self._activate(self.linear(rows, f"{at}fc1", inner, width))
        if self._form.gated:
            fed = self._writer.op("Mul", fed, self.linear(rows, f"{at}fc_gate", inner, width))
        return self.linear(fed, f"{at}fc2", width, inner)

    def store(self, name: str, *shape: int, transposed: bool = False) -> ir.Value:
        """The weight of this name, [inner, outer] with `transposed`.

        Raises KeyError where it is missing, ValueError where it has another shape.
        """
        array = np.asarray(self._weights[name], np.float32)
        if array.shape != shape:
            raise ValueError(f"{name} is {list(array.shape)}, not {list(shape)}")
        return self._writer.store(name, array.T if transposed else array)

    def _activate(self, rows: ir.Value) -> ir.Value:
        if self._form.activation not in ACTIVATIONS:
            raise ValueError(f"activation {self._form.activation}; known are {', '.join(ACTIVATIONS)}")
        kind, more = ACTIVATIONS[self._form.activation]
        active = self._writer.op(kind, rows, **more)
        return self._writer.op("Mul", rows, active) if kind == "Sigmoid" else active
