"""Linear layers and norms of a Whisper model, written as ONNX nodes from its named weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from pipelines.gguf.onnx_writer import OnnxWriter

EPSILON = 1e-5
Weights = Mapping[str, NDArray[Any]]


class LayerWriter:
    """`weights` have Hugging Face's names; all are stored in float32."""

    def __init__(self, weights: Weights, writer: OnnxWriter) -> None:
        self._weights = weights
        self._writer = writer

    def linear(self, rows: ir.Value, name: str, outer: int, inner: int) -> ir.Value:
        """`inner` numbers of each row become `outer`; a layer without a bias has none."""
        product = self._writer.op("MatMul", rows, self.store(f"{name}.weight", outer, inner, turned=True))
        if f"{name}.bias" not in self._weights:
            return product
        return self._writer.op("Add", product, self.store(f"{name}.bias", outer))

    def norm(self, rows: ir.Value, name: str, width: int) -> ir.Value:
        scale, bias = (self.store(f"{name}.{each}", width) for each in ("weight", "bias"))
        return self._writer.op("LayerNormalization", rows, scale, bias, axis=-1, epsilon=EPSILON)

    def store(self, name: str, *shape: int, turned: bool = False) -> ir.Value:
        """The weight of this name, [inner, outer] with `turned`.

        Raises KeyError where it is missing, ValueError where it has another shape.
        """
        array = np.asarray(self._weights[name], np.float32)
        if array.shape != shape:
            raise ValueError(f"{name} is {list(array.shape)}, not {list(shape)}")
        return self._writer.store(name, array.T if turned else array)
