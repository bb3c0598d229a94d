"""Recurrent layers by the CPU kernels, beside the same sums in float64, and beside themselves in other cuts."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest
from every_case import every_case
from kernel_library import INSTRUCTION_SETS, instruction_set, kernel_library

BOUND = 2e-6
"""Of the largest number of a result: sums of float32 differ from those of float64 by less."""
NUM_ROWS = 12
EPSILON = 1e-6


def structure(sizes, arrays, floats=()):
    fields = [(name, ctypes.c_size_t) for name in sizes] + [(name, ctypes.c_float) for name in floats]
    fields += [(name, ctypes.c_void_p) for name in arrays]
    return type("Layer", (ctypes.Structure,), {"_fields_": fields})


Step = structure(["sequences"], ["begins", "rows", "row_begins", "past", "interval"])


@dataclass
class Part:
    """The next tokens of one sequence in a step: `count` of them, after `past`, and its rows of states."""

    count: int
    rows: list[int]
    past: int = 0
    interval: int = 1 << 30
    first: int = 0


@dataclass
class Layer:
    """A layer of random inputs: `tokens` and `constants` by name, in the order of the C structure."""

    name: str
    sizes: dict[str, int]
    state: tuple[int, ...]
    tokens: dict[str, np.ndarray]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    floats: dict[str, float] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    mixed: tuple[int, ...] = ()

    def step(self, state, token):
        """The state after a token, and what is mixed, in float64."""
        return STEPS[self.name](self, state, {name: array[token] for name, array in self.tokens.items()})


def conv_step(layer, state, now):
    state = np.concatenate([state[:, 1:], now["rows"][:, None]], axis=1)
    return state, (state * layer.constants["weight"]).sum(axis=1) + layer.constants["bias"]


def net_step(layer, state, now):
    times = layer.sizes["heads"] // layer.sizes["key_heads"]
    query, key = (
        np.repeat(now[side] / np.sqrt((now[side] ** 2).sum(-1, keepdims=True) + EPSILON), times, axis=0)
        for side in ("query", "key")
    )
    state = state * np.exp(now["decay"])[:, None, None]
    missing = now["value"] - np.einsum("hvk,hk->hv", state, key)
    state = state + np.einsum("hv,hk->hvk", now["beta"][:, None] * missing, key)
    return state, np.einsum("hvk,hk->hv", state, query) / np.sqrt(layer.sizes["key_size"])


def mamba_step(layer, state, now):
    times = layer.sizes["heads"] // layer.sizes["groups"]
    written, read = (np.repeat(now[side], times, axis=0) for side in ("written", "read"))
    fading = np.exp(layer.constants["decay"] * now["steps"])[:, None, None]
    state = fading * state + np.einsum("hd,hs->hds", now["steps"][:, None] * now["values"], written)
    return state, np.einsum("hds,hs->hd", state, read)


STEPS = {"rl_convolve": conv_step, "rl_run_delta_net": net_step, "rl_run_mamba2": mamba_step}


def conv(rng, tokens, channels, kernel):
    constants = {
        "weight": rng.standard_normal((channels, kernel), np.float32),
        "bias": rng.standard_normal(channels, np.float32),
    }
    rows = rng.standard_normal((tokens, channels), np.float32)
    sizes = {"channels": channels, "kernel": kernel}
    order = ("rows", "weight", "bias")
    return Layer("rl_convolve", sizes, (channels, kernel), {"rows": rows}, constants, {}, order, (channels,))


def delta_net(rng, tokens, key_heads, key_size, times, value_size):
    heads = key_heads * times
    own = {
        "query": rng.standard_normal((tokens, key_heads, key_size), np.float32),
        "key": rng.standard_normal((tokens, key_heads, key_size), np.float32),
        "value": rng.standard_normal((tokens, heads, value_size), np.float32),
        "decay": -np.exp(rng.standard_normal((tokens, heads), np.float32)),
        "beta": rng.random((tokens, heads), np.float32),
    }
    sizes = {"key_heads": key_heads, "key_size": key_size, "heads": heads, "value_size": value_size}
    state = (heads, value_size, key_size)
    return Layer("rl_run_delta_net", sizes, state, own, {}, {"epsilon": EPSILON}, tuple(own), state[:2])


def mamba(rng, tokens, groups, state_size, times, head_size):
    heads = groups * times
    own = {
        "values": rng.standard_normal((tokens, heads, head_size), np.float32),
        "steps": np.exp(rng.standard_normal((tokens, heads), np.float32) - 1),
        "written": rng.standard_normal((tokens, groups, state_size), np.float32),
        "read": rng.standard_normal((tokens, groups, state_size), np.float32),
    }
    constants = {"decay": -np.exp(rng.standard_normal(heads, np.float32))}
    sizes = {"groups": groups, "state_size": state_size, "heads": heads, "head_size": head_size}
    state = (heads, head_size, state_size)
    return Layer("rl_run_mamba2", sizes, state, own, constants, {}, (*own, "decay"), state[:2])


def run(library, layer, parts_of_step, states, threads=1):
    """What is mixed in a step, whose tokens are those of its parts one after another; `states` are written."""
    tokens = {
        name: np.concatenate([array[part.first : part.first + part.count] for part in parts_of_step])
        for name, array in layer.tokens.items()
    }
    total = sum(part.count for part in parts_of_step)
    mixed = np.full((total, *layer.mixed), np.nan, np.float32)
    lists = {
        "begins": np.cumsum([0, *(part.count for part in parts_of_step)]),
        "rows": [row for part in parts_of_step for row in part.rows],
        "row_begins": np.cumsum([0, *(len(part.rows) for part in parts_of_step)]),
        "past": [part.past for part in parts_of_step],
        "interval": [part.interval for part in parts_of_step],
    }
    ints = {name: np.array(values, np.int32) for name, values in lists.items()}
    step = Step(len(parts_of_step), *(array.ctypes.data for array in ints.values()))
    arrays = [(tokens | layer.constants)[name] for name in layer.order] + [states, mixed]
    assert all(array.flags.c_contiguous and array.dtype == np.float32 for array in arrays)
    kind = structure(layer.sizes, [*layer.order, "states", "mixed"], layer.floats)
    called = kind(*layer.sizes.values(), *layer.floats.values(), *(array.ctypes.data for array in arrays))
    library.rl_check.restype = ctypes.c_char_p
    sizes = [ctypes.c_size_t(size) for size in (total, len(states), len(ints["rows"]))]
    assert library.rl_check(ctypes.byref(step), *sizes) is None
    for number in range(threads):
        place = ctypes.c_size_t(number), ctypes.c_size_t(threads)
        getattr(library, layer.name)(ctypes.byref(called), ctypes.byref(step), *place)
    return mixed


def expected(layer, count, state):
    """The states after each of the first `count` tokens, and what is mixed, in float64."""
    state, states, mixed = state.astype(np.float64), [], []
    for token in range(count):
        state, row = layer.step(state, token)
        states.append(state)
        mixed.append(row)
    return np.array(states), np.array(mixed)


def assert_close(got, want):
    np.testing.assert_allclose(got, want, atol=BOUND * max(1.0, np.abs(want).max()), rtol=0)


@pytest.fixture(params=[name for name in INSTRUCTION_SETS if name.startswith(("avx512", "avx2"))])
def library(request):
    with instruction_set(request.param) as kernels:
        yield kernels


LAYERS = (
    partial(delta_net, key_heads=2, key_size=128, times=2, value_size=128),
    partial(delta_net, key_heads=1, key_size=24, times=3, value_size=17),
    partial(delta_net, key_heads=2, key_size=7, times=1, value_size=40),
    partial(delta_net, key_heads=1, key_size=256, times=1, value_size=16),
    partial(mamba, groups=1, state_size=128, times=4, head_size=64),
    partial(mamba, groups=2, state_size=20, times=2, head_size=33),
    partial(conv, channels=192, kernel=4),
    partial(conv, channels=37, kernel=3),
    partial(conv, channels=70, kernel=1),
)
"""Sizes of models, and such as fill no vector, no tile and no piece of memory."""


@every_case("layer_of", LAYERS)
def test_results_and_states_are_those_of_float64(library, layer_of):
    rng = np.random.default_rng(1)
    layer = layer_of(rng, 50)
    states = rng.standard_normal((NUM_ROWS, *layer.state), np.float32)
    after, mixed = expected(layer, 50, states[3])
    others = states.copy()
    assert_close(run(library, layer, [Part(50, [3, 5])], states), mixed)
    assert_close(states[5], after[-1])
    others[5] = states[5]
    np.testing.assert_array_equal(states, others)


@every_case("layer_of", LAYERS)
def test_a_sequence_has_the_same_bits_beside_others_on_any_threads_and_in_any_cut(library, layer_of):
    rng = np.random.default_rng(2)
    layer = layer_of(rng, 40)
    first = rng.standard_normal((NUM_ROWS, *layer.state), np.float32)
    alone = first.copy()
    whole = run(library, layer, [Part(40, [0, 1])], alone)
    for threads in (1, 3, 64):
        states = first.copy()
        states[7] = first[0]
        crowd = [Part(1, [2, 2], 9), Part(0, []), Part(23, [7, 7]), Part(5, [3, 4], first=8)]
        got = run(library, layer, crowd, states, threads)
        np.testing.assert_array_equal(got[1:24], whole[:23])
        tail = [Part(1, [7, 7], 23, first=23), Part(16, [7, 8], 24, first=24)]
        rows = [run(library, layer, [part], states, threads) for part in tail]
        np.testing.assert_array_equal(np.concatenate(rows), whole[23:])
        np.testing.assert_array_equal(states[8], alone[1])


@every_case("layer_of", LAYERS)
def test_a_state_is_written_after_every_interval_and_at_the_end(library, layer_of):
    rng = np.random.default_rng(3)
    layer = layer_of(rng, 25)
    first = rng.standard_normal((NUM_ROWS, *layer.state), np.float32)
    after, _ = expected(layer, 25, first[0])
    states = first.copy()
    run(library, layer, [Part(25, [0, 1, 2, 0, 4], past=5, interval=8)], states, 2)
    for row, tokens in ((1, 3), (2, 11), (0, 19), (4, 25)):
        assert_close(states[row], after[tokens - 1])
    states = first.copy()
    run(library, layer, [Part(25, [0, 6], interval=0)], states)
    assert_close(states[6], after[-1])


def test_instruction_sets_give_the_same_bits():
    kernels = kernel_library()
    before = kernels.bl_isa()
    names = [name for name in INSTRUCTION_SETS if kernels.bl_set_isa(name.encode())]
    rng = np.random.default_rng(4)
    try:
        for layer_of in LAYERS:
            layer, results = layer_of(rng, 20), []
            for name in names:
                kernels.bl_set_isa(name.encode())
                states = np.ones((2, *layer.state), np.float32)
                results.append((run(kernels, layer, [Part(20, [0, 1])], states), states))
            for result in results[1:]:
                np.testing.assert_array_equal(result[0], results[0][0])
                np.testing.assert_array_equal(result[1], results[0][1])
    finally:
        kernels.bl_set_isa(before)


BROKEN = {
    "tokens of sequences": {"begins": [0, 9]},
    "tokens before a sequence": {"past": [-1]},
    "rows of sequences": {"row_begins": [0, 3]},
    "too few rows of states": {"interval": [2]},
    "no such row of states": {"rows": [0, 4]},
}


@pytest.mark.parametrize("problem", BROKEN)
def test_a_step_that_would_leave_its_arrays_is_refused(problem):
    library = kernel_library()
    library.rl_check.restype = ctypes.c_char_p
    lists = {"begins": [0, 8], "rows": [0, 3], "row_begins": [0, 2], "past": [0], "interval": [0]}
    ints = [np.array(values, np.int32) for values in (lists | BROKEN[problem]).values()]
    step = Step(1, *(array.ctypes.data for array in ints))
    sizes = [ctypes.c_size_t(size) for size in (8, 4, 2)]
    assert library.rl_check(ctypes.byref(step), *sizes) == problem.encode()
