"""Layers of hybrid decoders that have a state in place of keys and values: what a file says of them, and
their nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from pipelines.gguf.errors import GgufError
from pipelines.gguf.linear_layers import F32, LinearLayers, Operand
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.reader import Rows
from pipelines.gguf.tensor_types import Floats
from pipelines.gguf.weights import is_float, read_floats
from pipelines.onnx_format.decoder_format import DOMAIN
from pipelines.onnx_format.onnx_writer import OnnxWriter
from pipelines.onnx_format.recurrent_format import DELTA_NET, KINDS, MAMBA2, NUMBER, SHORT_CONV

Kind = Literal["short conv", "delta net", "tiled delta net", "mamba 2"]
"""`tiled`: value heads of one key head are as far apart as there are key heads; else they are neighbours."""
KEY_EPSILON = 1e-6
"""What keeps the norms of a delta net's queries and keys from dividing by 0; no file says it."""
FULL_EVERY = 4
"""Every n-th layer attends to all tokens in files of delta nets that do not say it."""
SSM = ("inner_size", "state_size", "time_step_rank", "group_count")
"""Sizes of a state: of all heads together, of a key, and the numbers of heads of values and of keys."""


@dataclass(frozen=True)
class Recurrence:
    """The recurrent layers of a decoder: which `layers` they are, and their sizes.

    `heads` of `head_size` numbers read a state; its rows have `state_size` numbers, which `groups` heads
    write.  Short convolutions have the `kernel` alone.
    """

    kind: Kind
    layers: tuple[bool, ...]
    kernel: int
    heads: int = 0
    head_size: int = 0
    groups: int = 0
    state_size: int = 0

    @property
    def inner(self) -> int:
        return self.heads * self.head_size

    @property
    def shared(self) -> int:
        """Numbers of what all groups write, or read."""
        return self.groups * self.state_size

    @property
    def tiled_heads(self) -> Rows:
        """The head of the file that is each head of the node."""
        times = self.heads // self.groups
        heads = np.arange(self.heads)
        return heads % times * self.groups + heads // times if self.kind == "tiled delta net" else heads


def read_recurrence(metadata: Metadata, kind: Kind | None, feeds: Sequence[bool]) -> Recurrence | None:
    """None for a decoder of attention alone.  `feeds`: which layers have no state and no attention.  Raises
    `GgufError`.
    """
    if kind is None:
        return None
    recurrent = _read_layers(metadata, kind, len(feeds))
    recurrent = tuple(is_state and not feed for is_state, feed in zip(recurrent, feeds, strict=True))
    if all(is_state or feed for is_state, feed in zip(recurrent, feeds, strict=True)):
        raise GgufError("has no layer of attention, which is not served")
    if kind == "short conv":
        return Recurrence(kind, recurrent, metadata.count("shortconv.l_cache"))
    inner, state_size, heads, groups = (metadata.count(f"ssm.{name}") for name in SSM)
    if inner % heads or heads % groups:
        raise GgufError(f"has a state of {inner} numbers with {heads} heads in {groups} groups")
    kernel = metadata.count("ssm.conv_kernel")
    return Recurrence(kind, recurrent, kernel, heads, inner // heads, groups, state_size)


def _read_layers(metadata: Metadata, kind: Kind, layers: int) -> tuple[bool, ...]:
    if kind in ("short conv", "mamba 2"):
        kv_heads = metadata.per_layer("attention.head_count_kv", layers) or [1] * layers
        return tuple(count == 0 for count in kv_heads)
    every = metadata.count("full_attention_interval", FULL_EVERY)
    said = metadata.per_layer("attention.recurrent_layers", layers)
    return tuple(map(bool, said or [(layer + 1) % every != 0 for layer in range(layers)]))


class RecurrentLayers:
    """Writes the recurrent layers of a decoder; the tensors of a layer begin with `at`."""

    def __init__(
        self, facts: Recurrence, width: int, epsilon: float, linears: LinearLayers, writer: OnnxWriter
    ) -> None:
        self._facts, self._width, self._epsilon = facts, width, epsilon
        self._linears, self._writer, self._op = linears, writer, writer.op
        self._states = 0

    def write(self, at: str, read: ir.Value) -> ir.Value:
        """What the layer adds to `read`, float32 [1, tokens, width]."""
        if self._facts.kind == "short conv":
            return self._short_conv(at, read)
        if self._facts.kind == "mamba 2":
            return self._mamba2(at, read)
        return self._delta_net(at, read)

    # LFM2

    def _short_conv(self, at: str, read: ir.Value) -> ir.Value:
        width, op = self._width, self._op
        joined = self._linears.linear(read, f"{at}shortconv.in_proj", 3 * width, width)
        before, after, rows = self._writer.split(joined, width, width, width)
        convolved = self._convolved(op("Mul", before, rows), f"{at}shortconv.conv", width)
        return self._linears.linear(op("Mul", after, convolved), f"{at}shortconv.out_proj", width, width)

    def _convolved(self, rows: ir.Value, name: str, channels: int, order: Rows | None = None) -> ir.Value:
        kernel = self._facts.kernel
        weight = self._floats(f"{name}.weight", channels, kernel, order).reshape(channels, 1, kernel)
        inputs = [self._writer.store(name, weight)]
        if self._linears.has(f"{name}.bias"):
            inputs.append(self._vector(f"{name}.bias", channels, order))
        sizes = {"channels": channels, "kernel": kernel}
        return self._node(SHORT_CONV, sizes, rows, *inputs, shape=(channels,))

    # Qwen3-Next, Qwen3.5

    def _delta_net(self, at: str, read: ir.Value) -> ir.Value:
        facts, op = self._facts, self._op
        joined, gate = self._joined(at, read)
        rows = self._joined_rows()
        mixed = self._silu(self._convolved(joined, f"{at}ssm_conv1d", len(rows), rows))
        query, key, value = self._writer.split(mixed, facts.shared, facts.shared, facts.inner)
        beta, decay = self._beta_and_decay(at, read)
        sizes = {
            "key_heads": facts.groups,
            "key_size": facts.state_size,
            "value_heads": facts.heads,
            "value_size": facts.head_size,
        }
        keys, values = (facts.groups, facts.state_size), (facts.heads, facts.head_size)
        inputs = [self._heads(query, *keys), self._heads(key, *keys), self._heads(value, *values)]
        net = self._node(DELTA_NET, sizes, *inputs, decay, beta, shape=values, epsilon=KEY_EPSILON)
        normed = self._normed(net, f"{at}ssm_norm.weight", facts.head_size)
        gated = op("Mul", normed, self._silu(self._heads(gate, *values)))
        flat = op("Reshape", self._in_order_of_file(gated), self._writer.ints(1, -1, facts.inner))
        return self._linears.linear(flat, f"{at}ssm_out", self._width, facts.inner)

    def _joined(self, at: str, read: ir.Value) -> Iterable[ir.Value]:
        """Queries, keys and values as rows, and what gates the result."""
        facts = self._facts
        keys, values = np.arange(2 * facts.shared), self._value_rows()
        operands = [
            Operand(
                f"{at}attn_qkv", 2 * facts.shared + facts.inner, np.concatenate([keys, len(keys) + values])
            ),
            Operand(f"{at}attn_gate", facts.inner, values),
        ]
        return self._linears.linear_together(read, operands, self._width)

    def _beta_and_decay(self, at: str, read: ir.Value) -> tuple[ir.Value, ir.Value]:
        facts, op = self._facts, self._op
        heads = facts.tiled_heads
        if self._linears.has(f"{at}ssm_ba.weight"):
            rows = self._paired_rows()
            both = self._linears.linear(read, f"{at}ssm_ba", len(rows), self._width, rows)
            beta, alpha = self._writer.split(both, facts.heads, facts.heads)
        else:
            operands = [Operand(f"{at}{name}", facts.heads, heads) for name in ("ssm_beta", "ssm_alpha")]
            beta, alpha = self._linears.linear_together(read, operands, self._width)
        steps = self._steps(at, alpha, heads)
        return op("Sigmoid", beta), op("Mul", steps, self._vector(f"{at}ssm_a", facts.heads, heads))

    def _paired_rows(self) -> Rows:
        """Rows of beta, then of alpha, of a tensor that has, for each key head, those of its value heads."""
        rows = np.arange(2 * self._facts.heads).reshape(self._facts.groups, 2, -1)
        return rows.swapaxes(0, 1).reshape(-1)

    def _joined_rows(self) -> Rows:
        """Rows of queries, keys and values."""
        keys = 2 * self._facts.shared
        return np.concatenate([np.arange(keys), keys + self._value_rows()])

    def _value_rows(self) -> Rows:
        size = self._facts.head_size
        return (self._facts.tiled_heads[:, None] * size + np.arange(size)).reshape(-1)

    def _in_order_of_file(self, heads: ir.Value) -> ir.Value:
        """Heads as the columns of the last weight are ordered, whose blocks stay as they are."""
        order = np.argsort(self._facts.tiled_heads)
        if (order == np.arange(len(order))).all():
            return heads
        return self._op("Gather", heads, self._writer.ints(*order.tolist()), axis=2)

    # Mamba 2

    def _mamba2(self, at: str, read: ir.Value) -> ir.Value:
        facts, op, writer = self._facts, self._op, self._writer
        channels = facts.inner + 2 * facts.shared
        joined = self._linears.linear(read, f"{at}ssm_in", facts.inner + channels + facts.heads, self._width)
        gate, rows, steps = writer.split(joined, facts.inner, channels, facts.heads)
        mixed = self._silu(self._convolved(rows, f"{at}ssm_conv1d", channels))
        flat, written, past = writer.split(mixed, facts.inner, facts.shared, facts.shared)
        values = self._heads(flat, facts.heads, facts.head_size)
        groups = [self._heads(rows, facts.groups, facts.state_size) for rows in (written, past)]
        sizes = {
            "heads": facts.heads,
            "head_size": facts.head_size,
            "groups": facts.groups,
            "state_size": facts.state_size,
        }
        decay = self._writer.store(f"{at}ssm_a", self._floats(f"{at}ssm_a", facts.heads, 1).reshape(-1))
        shape = (facts.heads, facts.head_size)
        states = self._node(MAMBA2, sizes, values, self._steps(at, steps), *groups, decay, shape=shape)
        skipped = op("Mul", values, self._column(f"{at}ssm_d", facts.heads))
        summed = op("Reshape", op("Add", states, skipped), writer.ints(1, -1, facts.inner))
        gated = op("Mul", summed, self._silu(gate))
        normed = self._group_norm(gated, f"{at}ssm_norm.weight")
        return self._linears.linear(normed, f"{at}ssm_out", self._width, facts.inner)

    def _group_norm(self, rows: ir.Value, name: str) -> ir.Value:
        groups, size = self._facts.groups, self._facts.inner // self._facts.groups
        ones = self._writer.store(f"ones.{size}", np.ones(size, np.float32))
        normed = self._rms(self._heads(rows, groups, size), ones)
        weight = self._writer.store(name, self._floats(name, groups, size))
        return self._op("Reshape", self._op("Mul", normed, weight), self._writer.ints(1, -1, groups * size))

    # What several have

    def _steps(self, at: str, rows: ir.Value, order: Rows | None = None) -> ir.Value:
        bias = self._vector(f"{at}ssm_dt.bias", self._facts.heads, order)
        return self._op("Softplus", self._op("Add", rows, bias))

    def _node(
        self, kind: str, sizes: dict[str, int], *inputs: ir.Value, shape: tuple[int, ...], **floats: float
    ) -> ir.Value:
        for value, lengths in zip(inputs, KINDS[kind].inputs.values(), strict=False):
            named = [sizes[length] if isinstance(length, str) else length for length in lengths]
            value.dtype, value.shape = F32, ir.Shape([1, "num_tokens", *named])
        mixed = self._op(kind, *inputs, domain=DOMAIN, **{NUMBER: self._states}, **sizes, **floats)
        mixed.dtype, mixed.shape = F32, ir.Shape([1, "num_tokens", *shape])
        self._states += 1
        return mixed

    def _heads(self, rows: ir.Value, count: int, size: int) -> ir.Value:
        return self._op("Reshape", rows, self._writer.ints(1, -1, count, size))

    def _silu(self, rows: ir.Value) -> ir.Value:
        return self._op("Mul", rows, self._op("Sigmoid", rows))

    def _normed(self, rows: ir.Value, name: str, size: int) -> ir.Value:
        return self._rms(rows, self._vector(name, size))

    def _rms(self, rows: ir.Value, scale: ir.Value) -> ir.Value:
        return self._op("RMSNormalization", rows, scale, axis=-1, epsilon=self._epsilon, stash_type=1)

    def _vector(self, name: str, size: int, order: Rows | None = None) -> ir.Value:
        values = self._floats(name, 1, size).reshape(size)
        return self._writer.store(name, values if order is None else values[order])

    def _column(self, name: str, size: int) -> ir.Value:
        return self._writer.store(name, self._floats(name, size, 1))

    def _floats(self, name: str, rows: int, width: int, order: Rows | None = None) -> Floats:
        tensor = self._linears.tensor(name, rows, width)
        if not is_float(tensor):
            raise GgufError(f"{name} is of type {tensor.type.name}; F32, F16 and BF16 are served there")
        values = read_floats(tensor)
        return values if order is None else values[order]
