"""xIELU, the activation of Apertus: a parabola above 0, an exponential function below, each layer's own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata
from pipelines.onnx_format.onnx_writer import OnnxWriter


class Xielu(NamedTuple):
    """x² · `above` + x · `slope` above 0; below (eᵐ - 1 - x) · `below` + x · `slope`, where m is at most
    `limit`.  From arXiv 2411.13010.
    """

    above: float
    below: float
    slope: float
    limit: float

    def write(self, writer: OnnxWriter, values: ir.Value) -> ir.Value:
        op, number = writer.op, writer.number
        square = op("Mul", op("Mul", values, values), number(self.above))
        power = op("Exp", op("Min", values, number(self.limit)))
        curve = op("Mul", op("Sub", op("Sub", power, number(1.0)), values), number(self.below))
        either = op("Where", op("Greater", values, number(0.0)), square, curve)
        return op("Add", either, op("Mul", values, number(self.slope)))


def read_xielu(metadata: Metadata, layers: int) -> tuple[Xielu, ...]:
    """The activations of all layers; the file has the numbers that were trained.  Raises `GgufError`."""
    names = ("alpha_p", "alpha_n", "beta", "eps")
    columns = []
    for name in names:
        values = metadata.array(f"xielu.{name}")
        if values is None or len(values) < layers or not np.isfinite(values).all():
            raise GgufError(f"has no xielu.{name} for each of {layers} layers")
        columns.append(values[:layers].astype(np.float64))
    above, below, slope, limit = columns
    below = slope + np.logaddexp(0, below)
    rows = zip(np.logaddexp(0, above), below, slope, limit, strict=True)
    return tuple(Xielu(*(float(number) for number in row)) for row in rows)
