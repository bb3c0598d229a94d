"""The layers with states: the device's results, and the rows of states that it writes, beside numpy's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ops.cuda import recurrent
from pipelines.inference.contracts.step import NO_STATE, ONLY_LAST
from tools.lab.gpu_check.correctness.sizes import Size

Floats = NDArray[np.float32]
EPSILON, TOLERANCE = 1e-6, 2e-5
MOST_SEQUENCES = 24
WRITES_ITS_OWN = 0.3
"""How often a sequence reads a row that it writes, too."""
LARGE_VOCAB = 2000
"""Sizes of more words are those of real layers: the host's stand-in for a GPU is slow."""


class Records(NamedTuple):
    """Which tokens and which rows of states the sequences of a step have; `num_rows` rows in all."""

    steps: NDArray[np.int32]
    num_rows: int

    @property
    def num_tokens(self) -> int:
        return int(self.steps[-1, 1])


def random_records(rng: np.random.Generator, num_seqs: int, longest: int) -> Records:
    """Sequences of 1 to `longest` tokens, new ones and continued ones, of which some share the row that they
    read, and some write to it; some write after every token or every few tokens.
    """
    num_new = rng.integers(1, longest + 1, num_seqs)
    starts = np.concatenate([[0], np.cumsum(num_new)]).astype(np.int32)
    past = rng.integers(0, 3 * longest, num_seqs).astype(np.int32)
    interval = rng.choice([ONLY_LAST, 1, 3, longest], num_seqs).astype(np.int32)
    writes = -(-(past % interval + num_new) // interval)
    shared = int(num_seqs)
    read = np.where(rng.random(num_seqs) < 0.3, NO_STATE, rng.integers(0, shared, num_seqs))
    table = np.full((num_seqs, 1 + writes.max()), -9)
    table[:, 0] = read
    free = shared + rng.permutation(int(writes.sum()))
    for row, count in enumerate(writes):
        table[row, 1 : 1 + count], free = free[:count], free[count:]
        if rng.random() < WRITES_ITS_OWN:
            table[row, 0] = table[row, 1 + rng.integers(count)]
    return Records(recurrent.records(starts, past, interval, table), shared + int(writes.sum()))


Cell = Callable[[Floats, int], tuple[Floats, Floats]]
"""(state, token) → the state after it, and what it gives."""


def run_records(records: Records, states: Floats, cell: Cell) -> tuple[Floats, Floats]:
    """The results of all tokens, and all rows of states afterwards."""
    after, mixed = states.copy(), []
    for begin, end, reached, interval, read, *written in records.steps.tolist():
        state = np.zeros_like(states[0]) if read == NO_STATE else states[read]
        for token in range(begin, end):
            state, row = cell(state, token)
            mixed.append(row)
            reached += 1
            if token + 1 == end or reached % interval == 0:
                after[written.pop(0)] = state
    return np.stack(mixed), after


def conv_cell(rows: Floats, weight: Floats, bias: Floats) -> Cell:
    def run(state: Floats, token: int) -> tuple[Floats, Floats]:
        state = np.concatenate([state[:, 1:], rows[token][:, None]], axis=1)
        return state, (state * weight[:, 0]).sum(axis=1) + bias

    return run


def delta_cell(inputs: tuple[Floats, ...], key_size: int) -> Cell:
    query, key, value, decay, beta = inputs
    times = value.shape[1] // query.shape[1]

    def unit(rows: Floats) -> Floats:
        whole: Floats = rows / np.sqrt((rows**2).sum(-1, keepdims=True) + np.float32(EPSILON))
        return np.repeat(whole, times, axis=0)

    def run(state: Floats, token: int) -> tuple[Floats, Floats]:
        q, k = unit(query[token]), unit(key[token])
        state = state * np.exp(decay[token])[:, None, None]
        missing = beta[token][:, None] * (value[token] - (state @ k[:, :, None])[:, :, 0])
        state = state + missing[:, :, None] * k[:, None]
        return state, (state @ q[:, :, None])[:, :, 0] / np.sqrt(np.float32(key_size))

    return run


def mamba_cell(inputs: tuple[Floats, ...], decay: Floats) -> Cell:
    values, steps, written, read = inputs
    times = values.shape[1] // written.shape[1]

    def run(state: Floats, token: int) -> tuple[Floats, Floats]:
        step = steps[token]
        w, r = np.repeat(written[token], times, axis=0), np.repeat(read[token], times, axis=0)
        state = np.exp(decay * step)[:, None, None] * state
        state = state + (step[:, None] * values[token])[:, :, None] * w[:, None]
        return state, (state @ r[:, :, None])[:, :, 0]

    return run


def rounded(values: Floats, element: Any) -> tuple[NDArray[Any], Floats]:
    """Values in a type of inputs, uint16 for bfloat16, and what they are then in float32."""
    if element == np.uint16:
        bits = (values.view(np.uint32) >> 16).astype(np.uint16)
        return bits, (bits.astype(np.uint32) << 16).view(np.float32)
    stored = values.astype(element)
    return stored, stored.astype(np.float32)


class Draw(NamedTuple):
    """Random inputs of one case, on the device and in numpy."""

    device: Any
    rng: np.random.Generator
    element: Any
    records: Records

    def states(self, *shape: int) -> tuple[Any, Floats]:
        values = self.normal(self.records.num_rows, *shape)
        return self.device.upload(values), values

    def normal(self, *shape: int) -> Floats:
        return self.rng.standard_normal(shape).astype(np.float32)

    def of_tokens(self, *values: Floats) -> tuple[tuple[Any, ...], tuple[Floats, ...]]:
        pairs = [rounded(part, self.element) for part in values]
        return tuple(self.device.upload(stored) for stored, _ in pairs), tuple(real for _, real in pairs)


def draw(device: Any, size: Size, element: Any, seed: int) -> Draw:
    rng = np.random.default_rng(seed)
    longest = 3 * size.block_tokens if size.vocab > LARGE_VOCAB else 9
    return Draw(device, rng, element, random_records(rng, min(size.sequences, MOST_SEQUENCES), longest))


def compare(drawn: Draw, mixed: Any, states: Any, wanted: tuple[Floats, Floats]) -> None:
    """Raises AssertionError where a result or a row of states differs, also one that is not to be written."""
    for name, given, expected in zip(("mixed", "states"), (mixed, states), wanted, strict=True):
        allowed = TOLERANCE * max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(drawn.device.download(given), expected, atol=allowed, rtol=0, err_msg=name)


def check_conv(kernel: int, element: Any, device: Any, size: Size) -> None:
    drawn = draw(device, size, element, 10 + kernel)
    channels = 2048 if size.vocab > LARGE_VOCAB else 37
    count = drawn.records.num_tokens
    (rows,), (real,) = drawn.of_tokens(drawn.normal(count, channels))
    weight, bias = drawn.normal(channels, 1, kernel), drawn.normal(channels)
    states, before = drawn.states(channels, kernel)
    mixed = recurrent.short_convolution(
        device, rows, device.upload(weight), device.upload(bias), device.upload(drawn.records.steps), states
    )
    compare(drawn, mixed, states, run_records(drawn.records, before, conv_cell(real, weight, bias)))


def check_delta(wide: bool, element: Any, device: Any, size: Size) -> None:
    drawn = draw(device, size, element, 20 + wide)
    key_heads, key_size, heads, value_size = (
        (16, 128, 32, 128) if size.vocab > LARGE_VOCAB else (2, 20, 4, 35)
    )
    key_size = _wide(size) if wide else key_size
    count = drawn.records.num_tokens
    inputs, real = drawn.of_tokens(
        drawn.normal(count, key_heads, key_size),
        drawn.normal(count, key_heads, key_size),
        drawn.normal(count, heads, value_size),
        -np.abs(drawn.normal(count, heads)),
        drawn.rng.random((count, heads), np.float32),
    )
    states, before = drawn.states(heads, value_size, key_size)
    mixed = recurrent.gated_delta_net(device, inputs, EPSILON, device.upload(drawn.records.steps), states)
    compare(drawn, mixed, states, run_records(drawn.records, before, delta_cell(real, key_size)))


def check_mamba(wide: bool, element: Any, device: Any, size: Size) -> None:
    drawn = draw(device, size, element, 30 + wide)
    heads, head_size, groups, state_size = (64, 64, 8, 128) if size.vocab > LARGE_VOCAB else (4, 9, 2, 21)
    state_size = _wide(size) if wide else state_size
    count = drawn.records.num_tokens
    inputs, real = drawn.of_tokens(
        drawn.normal(count, heads, head_size),
        np.abs(drawn.normal(count, heads)),
        drawn.normal(count, groups, state_size),
        drawn.normal(count, groups, state_size),
    )
    decay = -np.exp(drawn.normal(heads))
    states, before = drawn.states(heads, head_size, state_size)
    mixed = recurrent.mamba2(device, inputs, device.upload(decay), device.upload(drawn.records.steps), states)
    compare(drawn, mixed, states, run_records(drawn.records, before, mamba_cell(real, decay)))


def _wide(size: Size) -> int:
    """The length of a row for which the wide kernels are."""
    return recurrent.WIDEST if size.vocab > LARGE_VOCAB else recurrent.NARROW + 11


ELEMENTS = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}


def recurrent_cases() -> Iterator[tuple[str, Callable[[Any, Size], None]]]:
    """(name, check(device, size)) of every kernel in every type of inputs."""
    for name, element in ELEMENTS.items():
        for kernel in (1, 3, 4):
            yield f"short convolution of {kernel}, {name}", partial(check_conv, kernel, element)
        for wide in (False, True):
            rows = "wide" if wide else "narrow"
            yield f"gated delta net, {rows}, {name}", partial(check_delta, wide, element)
            yield f"mamba 2, {rows}, {name}", partial(check_mamba, wide, element)
