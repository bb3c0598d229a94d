"""Reads nodes of routed experts, and checks that they follow Braid's ONNX format."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from pipelines.inference.contracts.device_errors import ModelError
from pipelines.onnx_format.decoder_format import DOMAIN
from pipelines.onnx_format.experts_format import (
    ACTIVATIONS,
    CHOSEN,
    EXPERT_ATTRIBUTES,
    EXPERTS,
    HIDDEN_STATES,
    INPUTS,
    NETWORK,
    OPTIONAL_ATTRIBUTES,
    PARTS,
    TABLES,
    WEIGHTS,
)

BITS = (0, 2, 4, 8)
FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
SCALES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)


@dataclass(frozen=True)
class ExpertWeight:
    """One of the weights `up`, `gate` and `down` of all experts; `bits` 0: floats."""

    name: str
    codes: ir.Value
    scales: ir.Value | None
    zeros: ir.Value | None
    bias: ir.Value | None
    bits: int
    block: int
    is_e2m1: bool

    @property
    def parts(self) -> list[ir.Value]:
        """The initializers that there are."""
        values = (self.codes, self.scales, self.zeros, self.bias)
        return [value for value in values if value is not None]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Experts, rows of a result, columns of what is read."""
        experts, rows, columns = (*shape_of(self.codes), 0, 0, 0)[:3]
        return experts, rows, columns * (self.block if self.bits else 1)


@dataclass(frozen=True)
class Experts:
    """A node of experts; `gate` is None for networks without one."""

    node: ir.Node
    hidden_states: ir.Value
    chosen: ir.Value
    weights: ir.Value
    up: ExpertWeight
    down: ExpertWeight
    gate: ExpertWeight | None
    layer: int
    activation: str
    alpha: float
    limit: float
    accuracy_level: int

    @property
    def network(self) -> list[ExpertWeight]:
        return [weight for weight in (self.gate, self.up, self.down) if weight is not None]

    @property
    def count(self) -> int:
        return self.up.shape[0]

    @property
    def width(self) -> int:
        """The size of a hidden state."""
        return self.up.shape[2]


def find_experts(graph: ir.Graph) -> Iterator[Experts]:
    """The nodes of experts, in order, also while they are replaced.  Raises `ModelError`."""
    for node in [node for node in graph if (node.domain, node.op_type) == (DOMAIN, EXPERTS)]:
        yield read_experts(node)


def check_experts(graph: ir.Graph) -> None:
    """Raise `ModelError` unless all nodes of experts follow the format."""
    layers = [experts.layer for experts in find_experts(graph)]
    if layers != sorted(set(layers)) or (layers and layers[0] < 0):
        raise ModelError(f"its layers of experts are numbered {layers}, not in rising order.")


def read_experts(node: ir.Node) -> Experts:
    """The parts and attributes of a node.  Raises `ModelError`."""
    _check_attributes(node)
    values = {name: attribute.value for name, attribute in node.attributes.items()}
    inputs = dict(zip(INPUTS, node.inputs, strict=False))
    table = values["table"]
    weights = {name: _weight(name, inputs, values, table == "e2m1") for name in NETWORK}
    first = [node.inputs[place] for place in (HIDDEN_STATES, CHOSEN, WEIGHTS)]
    hidden_states, chosen, shares = (value for value in first if value is not None)
    up, down, gate = weights["up"], weights["down"], weights["gate"]
    if up is None or down is None:
        raise _fault(values["layer"], "no initializers up and down")
    experts = Experts(
        node=node,
        hidden_states=hidden_states,
        chosen=chosen,
        weights=shares,
        up=up,
        down=down,
        gate=gate,
        layer=values["layer"],
        activation=values["activation"],
        alpha=float(values.get("alpha", 1.0)),
        limit=float(values.get("limit", math.inf)),
        accuracy_level=int(values.get("accuracy_level", 0)),
    )
    _check(experts)
    return experts


def _check_attributes(node: ir.Node) -> None:
    missing = [name for name in EXPERT_ATTRIBUTES if name not in node.attributes]
    unknown = set(node.attributes) - {*EXPERT_ATTRIBUTES, *OPTIONAL_ATTRIBUTES}
    first = list(node.inputs[: WEIGHTS + 1])
    if missing or unknown or None in first or not WEIGHTS < len(node.inputs) <= len(INPUTS):
        raise ModelError(
            f"{DOMAIN}::{EXPERTS} {node.name} has {len(node.inputs)} inputs, lacks "
            f"{missing or 'no attribute'} and has {sorted(unknown) or 'none'} that this version of Braid "
            "does not support."
        )


def _weight(
    name: str, inputs: dict[str, ir.Value | None], values: dict[str, int], is_e2m1: bool
) -> ExpertWeight | None:
    codes, scales, zeros, bias = (inputs.get(name + part) for part in PARTS)
    bits, block = values[f"{name}_bits"], values[f"{name}_block"]
    if codes is None:
        return None
    return ExpertWeight(name, codes, scales, zeros, bias, bits, block, is_e2m1=is_e2m1 and bits == 4)


def _check(experts: Experts) -> None:
    count, inner, width = experts.up.shape
    wanted = {"up": (inner, width), "gate": (inner, width), "down": (width, inner)}
    faults = [fault for weight in experts.network for fault in _faults(weight, count, wanted[weight.name])]
    if experts.activation not in ACTIVATIONS:
        faults.append(f"activation {experts.activation}")
    table = experts.node.attributes["table"].value
    if table not in TABLES:
        faults.append(f"table {table}")
    if experts.activation == "clamped" and experts.gate is None:
        faults.append("a clamped activation without gate")
    if not math.isfinite(experts.alpha) or not experts.limit > 0:
        faults.append(f"alpha {experts.alpha} and limit {experts.limit}")
    if faults:
        raise _fault(experts.layer, ", ".join(faults))


def _fault(layer: int, what: str) -> ModelError:
    return ModelError(f"the experts of layer {layer} have {what}.")


def _faults(weight: ExpertWeight, count: int, wanted: tuple[int, int]) -> Iterator[str]:
    """What of a weight does not follow the format."""
    name, bits, block = weight.name, weight.bits, weight.block
    if any(not part.is_initializer() for part in weight.parts):
        yield f"{name} that is no initializer"
    elif bits not in BITS or (block < 1 and bits):
        yield f"{name} of {bits} bits in blocks of {block}"
    elif weight.shape != (count, *wanted):
        yield f"{name} {weight.shape} for {(count, *wanted)}"
    else:
        yield from (f"{part.name} {part.dtype}{list(shape_of(part))}" for part in _wrong_parts(weight))


def _wrong_parts(weight: ExpertWeight) -> Iterator[ir.Value]:
    """The parts that are not of their type and shape."""
    experts, rows, columns = weight.shape
    numbers = experts, rows, columns // max(weight.block, 1)
    kinds: dict[str, set[tuple[ir.DataType, tuple[int, ...]]]] = {
        "codes": {(dtype, weight.shape) for dtype in FLOATS},
        "scales": set(),
        "zeros": set(),
        "bias": {(ir.DataType.FLOAT, (experts, rows))},
    }
    if weight.bits:
        codes = (*numbers, _bytes(weight.block, weight.bits))
        kinds["codes"] = {(ir.DataType.UINT8, codes)}
        kinds["scales"] = {(dtype, numbers) for dtype in SCALES}
        if not weight.is_e2m1:
            packed = (*numbers[:2], _bytes(numbers[2], weight.bits))
            kinds["zeros"] = {(ir.DataType.FLOAT, numbers), (ir.DataType.UINT8, packed)}
        if weight.scales is None:
            yield weight.codes
    for kind, wanted in kinds.items():
        part = getattr(weight, kind)
        if part is not None and (part.dtype, shape_of(part)) not in wanted:
            yield part


def _bytes(codes: int, bits: int) -> int:
    return -(-codes * bits // 8)


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The sizes of an initializer; () where they are not known."""
    return tuple(value.shape.numpy()) if value.shape is not None and value.shape.is_static() else ()
