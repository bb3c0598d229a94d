"""The routed experts of a layer as one abstract node; their weights keep the blocks that the file has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from pipelines.gguf.codebook_readers import read_mxfp4_places
from pipelines.gguf.errors import GgufError
from pipelines.gguf.linear_layers import LinearLayers
from pipelines.gguf.reader import GgufTensor
from pipelines.gguf.tensor_types import PACKED_TYPES, TensorType
from pipelines.gguf.weight_writer import WeightPart
from pipelines.gguf.weights import is_float, read_floats
from pipelines.onnx_format.decoder_format import DOMAIN
from pipelines.onnx_format.experts_format import EXPERTS, GGUF_EXPERTS, NETWORK, TABLES
from pipelines.onnx_format.onnx_writer import OnnxWriter

LINEAR, E2M1 = TABLES
PLACES = TensorType("MXFP4", weights=32, bytes=17, bits=4, block=32, read=read_mxfp4_places)
"""MXFP4 whose codes of 4 bits are places in the node's table E2M1."""
UP, GATE, DOWN, BOTH = "ffn_up_exps", "ffn_gate_exps", "ffn_down_exps", "ffn_gate_up_exps"
NODE_ACTIVATIONS: dict[str, dict[str, str | float]] = {
    "silu": {"activation": "silu"},
    "gelu": {"activation": "gelu_tanh"},
    "gelu by erf": {"activation": "gelu"},
    "relu2": {"activation": "relu2"},
    "clamped": {"activation": "clamped", "alpha": 1.702, "limit": 7.0},
}
"""The activation of an architecture → the node's attributes; no file says the numbers."""


class Weight(NamedTuple):
    """The weights of one layer of all experts, and their biases [experts, rows] where the file has them.

    `part`: rows of a tensor, those of one expert after those of another.
    """

    name: str
    part: WeightPart
    bias: np.ndarray | None


class Stored(NamedTuple):
    """The inputs of a weight in the node, and its sizes."""

    inputs: list[ir.Value | None]
    bits: int
    block: int


class RoutedExperts:
    """Writes the experts of a decoder's layers; the tensors of a layer begin with `at`."""

    def __init__(self, experts: int, width: int, linears: LinearLayers, writer: OnnxWriter) -> None:
        self._experts, self._width, self._linears, self._writer = experts, width, linears, writer

    def write(
        self,
        at: str,
        read: ir.Value,
        router: tuple[ir.Value, ir.Value],
        activation: str,
        has_gate: bool = True,
    ) -> ir.Value:
        """The experts' sum, weighted by the `router`'s choice, float32 [1, tokens, width]."""
        network = self._network(at, has_gate)
        settings = {"layer": int(at.split(".")[1]), **NODE_ACTIVATIONS[activation]}
        if self._linears.in_file and all(_is_packed(weight) for weight in network.values()):
            mixed = self._in_file(network, read, router, settings)
        else:
            mixed = self._in_folder(network, read, router, settings)
        mixed.dtype, mixed.shape = ir.DataType.FLOAT, ir.Shape([1, "num_tokens", self._width])
        return mixed

    def _in_file(
        self,
        network: dict[str, Weight],
        read: ir.Value,
        router: tuple[ir.Value, ir.Value],
        settings: dict[str, Any],
    ) -> ir.Value:
        """Weights stay in the file."""
        biases = [self._bias_or_scalar(network.get(side)) for side in NETWORK]
        places = {
            f"{side}_{name}": value
            for side, weight in network.items()
            for name, value in weight.part.place().items()
        }
        settings = {"alpha": 1.0, "limit": math.inf, "experts": self._experts} | settings | places
        return self._writer.op(GGUF_EXPERTS, read, *router, *biases, domain=DOMAIN, **settings)

    def _bias_or_scalar(self, weight: Weight | None) -> ir.Value:
        if weight is None or weight.bias is None:
            return self._writer.store("absent", np.zeros((), np.float32))
        return self._writer.store(f"{weight.name}.bias", weight.bias)

    def _in_folder(
        self,
        network: dict[str, Weight],
        read: ir.Value,
        router: tuple[ir.Value, ir.Value],
        settings: dict[str, Any],
    ) -> ir.Value:
        """Weights are copied to the folder of the graph."""
        network, table = _with_table(network)
        stored = {side: self._stored(weight) for side, weight in network.items()}
        sizes = {f"{side}_bits": stored[side].bits if side in stored else 0 for side in NETWORK}
        sizes |= {f"{side}_block": stored[side].block if side in stored else 0 for side in NETWORK}
        inputs = [value for side in NETWORK if side in stored for value in stored[side].inputs]
        settings = settings | sizes | {"table": table, "accuracy_level": self._linears.accuracy_level}
        return self._writer.op(EXPERTS, read, *router, *inputs, domain=DOMAIN, **settings)

    def _network(self, at: str, has_gate: bool) -> dict[str, Weight]:
        """The weights by their sides."""
        if not has_gate:
            up = self._weight(f"{at}{UP}", self._width)
            inner = up.part.tensor.rows // self._experts
            return {"up": up, "down": self._weight(f"{at}{DOWN}", inner, self._width)}
        if self._linears.has(f"{at}{BOTH}.weight"):
            gate, up = self._halves(f"{at}{BOTH}")
        else:
            up, gate = (self._weight(f"{at}{name}", self._width) for name in (UP, GATE))
        inner, others = (weight.part.tensor.rows // self._experts for weight in (gate, up))
        if inner != others:
            raise GgufError(f"{at}{GATE} and {UP} have experts of {inner} and {others} rows")
        return {"up": up, "gate": gate, "down": self._weight(f"{at}{DOWN}", inner, self._width)}

    def _weight(self, name: str, width: int, rows: int | None = None) -> Weight:
        tensor = self._tensor(name, width, rows)
        return Weight(name, WeightPart(tensor), self._bias(name, tensor.rows // self._experts))

    def _halves(self, name: str) -> Iterator[Weight]:
        """Gate and up of a tensor that holds, of each expert, the rows of the gate and then those of up."""
        tensor = self._tensor(name, self._width, rows=None)
        rows = np.arange(tensor.rows).reshape(self._experts, 2, -1)
        bias = self._bias(name, tensor.rows // self._experts)
        biases = [None, None] if bias is None else np.split(bias, 2, axis=1)
        for half, side in enumerate(("gate", "up")):
            order = rows[:, half].reshape(-1)
            part = WeightPart(replace(tensor, rows=len(order)), order)
            yield Weight(f"{name}.{side}", part, biases[half])

    def _tensor(self, name: str, width: int, rows: int | None) -> GgufTensor:
        """The tensor of all experts; raises `GgufError` unless each has as many `rows`, or any where None."""
        whole = None if rows is None else rows * self._experts
        tensor = self._linears.tensor(f"{name}.weight", whole, width)
        if tensor.rows % (2 * self._experts if name.endswith(BOTH) else self._experts):
            raise GgufError(f"{name}.weight has {tensor.rows} rows, of {self._experts} experts")
        return tensor

    def _bias(self, name: str, rows: int) -> np.ndarray | None:
        name = f"{name}.bias"
        if not self._linears.has(name):
            return None
        tensor = self._linears.tensor(name, self._experts, rows)
        if not is_float(tensor):
            raise GgufError(f"{name} is of type {tensor.type.name}; biases are F32, F16 or BF16")
        return read_floats(tensor)

    def _stored(self, weight: Weight) -> Stored:
        """Weights, scales, zero points and biases as the node takes them."""
        name, part, values = weight
        bias = None if values is None else self._writer.store(f"{name}.bias", values)
        if is_float(part.tensor):
            floats = self._linears.weights.table(name, part, self._experts)
            return Stored([floats, None, None, bias], bits=0, block=0)
        blocks = self._linears.weights.blocks(name, [part], experts=self._experts)
        return Stored([blocks.codes, blocks.scales, blocks.zeros, bias], blocks.bits, blocks.block)


def _is_packed(weight: Weight) -> bool:
    """Whether the kernels take it as it is in the file."""
    return weight.part.tensor.type.name in PACKED_TYPES


def _with_table(network: dict[str, Weight]) -> tuple[dict[str, Weight], str]:
    """The weights, and what their codes of 4 bits stand for: those of MXFP4 have 8 where others have 4."""
    types = {weight.part.tensor.type for weight in network.values()}
    if PLACES.name not in {kind.name for kind in types} or any(kind.bits == PLACES.bits for kind in types):
        return network, LINEAR
    return {side: _in_places(weight) for side, weight in network.items()}, E2M1


def _in_places(weight: Weight) -> Weight:
    tensor, order = weight.part
    if tensor.type.name != PLACES.name:
        return weight
    return weight._replace(part=WeightPart(replace(tensor, type=PLACES), order))
