"""Reads the nodes of recurrent layers, and checks that they follow Braid's ONNX format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from pipelines.inference.backends.onnx.experts import shape_of
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.onnx_format.decoder_format import DOMAIN
from pipelines.onnx_format.recurrent_format import KINDS, NUMBER, OPTIONAL, RecurrentKind, Size


@dataclass(frozen=True)
class RecurrentNode:
    """A node with a state; `sizes` are its attributes that are whole numbers."""

    node: ir.Node
    kind: RecurrentKind
    sizes: Mapping[str, int]

    @property
    def number(self) -> int:
        return self.sizes[NUMBER]

    @property
    def state_shape(self) -> list[int]:
        """The shape of one sequence's state, float32."""
        return self.shape(self.kind.state)

    def shape(self, sizes: tuple[Size, ...]) -> list[int]:
        return [self.sizes[size] if isinstance(size, str) else size for size in sizes]

    @property
    def constants(self) -> dict[str, ir.Value]:
        """The initializers that there are, by name."""
        given = self.node.inputs[len(self.kind.inputs) :]
        pairs = zip(self.kind.constants, given, strict=False)
        return {name: value for name, value in pairs if value is not None}


def find_recurrent(graph: ir.Graph) -> list[RecurrentNode]:
    """The nodes with a state, in order.  Raises `ModelError`."""
    nodes = [node for node in graph if node.domain == DOMAIN and node.op_type in KINDS]
    recurrent = [_read(node) for node in nodes]
    numbers = [node.number for node in recurrent]
    if numbers != list(range(len(numbers))):
        raise ModelError(f"its recurrent states are numbered {numbers}, not from 0 on in order.")
    return recurrent


def _read(node: ir.Node) -> RecurrentNode:
    kind = KINDS[node.op_type]
    missing = sorted(set(kind.attributes) - set(node.attributes))
    unknown = sorted(set(node.attributes) - set(kind.attributes))
    least = len(kind.inputs) + len(set(kind.constants) - OPTIONAL)
    most = len(kind.inputs) + len(kind.constants)
    if missing or unknown or not least <= len(node.inputs) <= most or None in node.inputs[:least]:
        raise ModelError(
            f"{DOMAIN}::{node.op_type} {node.name} has {len(node.inputs)} inputs, lacks "
            f"{missing or 'no attribute'} and has {unknown or 'none'} that this version of Braid does not "
            "support."
        )
    sizes = {name: node.attributes[name].as_int() for name in (NUMBER, *kind.sizes)}
    read = RecurrentNode(node, kind, sizes)
    if faults := ", ".join(_faults(read)):
        raise ModelError(f"{DOMAIN}::{node.op_type} of state {read.number} has {faults}.")
    return read


def _faults(read: RecurrentNode) -> Iterator[str]:
    """What of a node does not follow the format."""
    sizes, kind = read.sizes, read.kind
    yield from (f"{name} {sizes[name]}" for name in kind.sizes if sizes[name] < 1)
    if kind.repeated and sizes[kind.repeated[0]] % max(sizes[kind.repeated[1]], 1):
        yield " and ".join(f"{name} {sizes[name]}" for name in kind.repeated)
    for name, value in read.constants.items():
        wanted = tuple(read.shape(kind.constants[name]))
        if not value.is_initializer() or (value.dtype, shape_of(value)) != (ir.DataType.FLOAT, wanted):
            yield f"{name} {value.dtype}{list(shape_of(value))} for FLOAT{list(wanted)}"
