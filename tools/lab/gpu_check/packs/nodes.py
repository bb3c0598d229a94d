"""Single attention nodes: their kinds, the steps they are checked on, and their reference in numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
INT8_MAX, E4M3_MAX, E4M3_MIN_EXPONENT, E4M3_MANTISSA = 127, 448.0, -6, 3


@dataclass(frozen=True)
class NodeKind:
    """One attention node.  `element` is what it computes in, `cache` what it stores ("f16", "i8" …)."""

    element: str = "f16"
    cache: str = "f16"
    num_heads: int = 8
    num_kv_heads: int = 2
    head_size: int = 128
    block_tokens: int = 128
    window: int = -1
    softcap: float = 0.0
    sinks: bool = False
    absmax: float = 0.0  # of keys and of values, for a quantized cache; 0: not calibrated

    @property
    def name(self) -> str:
        shape = f"h{self.num_heads}of{self.num_kv_heads}_d{self.head_size}_b{self.block_tokens}"
        window = f"_w{self.window}" if self.window > 0 else ""
        softcap = f"_cap{self.softcap:g}" if self.softcap else ""
        sinks = "_sinks" if self.sinks else ""
        return f"{self.element}_{self.cache}_{shape}{window}{softcap}{sinks}"

    @property
    def scale(self) -> float:
        return float(self.head_size**-0.5)

    @property
    def sink_of_head(self) -> Floats:
        """float32[heads]: numbers that the node's type holds exactly, above and below most scores."""
        return rounded(np.linspace(-2, 4, self.num_heads, dtype=np.float32), self.element)


ABSMAX = 5.0
"""Keys and values are drawn from a normal distribution; few lie beyond this."""
KINDS = (
    NodeKind(),
    NodeKind(block_tokens=16),
    NodeKind(num_heads=16, num_kv_heads=8),
    NodeKind(num_heads=32, num_kv_heads=8),
    NodeKind(num_heads=5, num_kv_heads=1),
    NodeKind(num_heads=4, num_kv_heads=4),
    NodeKind(head_size=64, block_tokens=256),
    NodeKind(head_size=64, block_tokens=16),
    NodeKind(head_size=80),
    NodeKind(head_size=256, block_tokens=64),
    NodeKind(window=32),
    NodeKind(window=32, block_tokens=16),
    NodeKind(window=1),
    NodeKind(softcap=2.0),
    NodeKind(softcap=2.0, window=100, head_size=64, block_tokens=256),
    NodeKind("bf16", "bf16"),
    NodeKind("bf16", "bf16", block_tokens=16, window=32),
    NodeKind("bf16", "bf16", head_size=64, block_tokens=256, softcap=2.0),
    NodeKind(num_heads=16, head_size=64, block_tokens=256, sinks=True),
    NodeKind("bf16", "bf16", num_heads=16, head_size=64, block_tokens=256, window=100, sinks=True),
    NodeKind(cache="i8", num_heads=16, num_kv_heads=4, absmax=ABSMAX),
    NodeKind(cache="i8", num_heads=16, num_kv_heads=8, head_size=64, absmax=ABSMAX),
    NodeKind(cache="i8", window=32, absmax=ABSMAX),
    NodeKind("bf16", "i8", num_heads=32, num_kv_heads=4, absmax=ABSMAX),
    NodeKind(cache="f8", num_heads=16, num_kv_heads=4, absmax=ABSMAX),
    NodeKind(cache="f8", head_size=64),
    NodeKind("bf16", "f8", num_heads=16, num_kv_heads=2, window=100, absmax=ABSMAX),
)
"""Head and block sizes for different kernels of ONNX Runtime, and windows: do they count the query itself?"""

STEPS: dict[str, list[tuple[int, int]]] = {
    "decode": [(5, 1), (130, 1), (511, 1), (0, 1), (1023, 1)],
    "prefill": [(0, 1), (0, 17), (0, 130), (0, 257)],
    "mixed": [(300, 1), (37, 64), (0, 33), (128, 128), (64, 1)],
    "one long": [(4095, 1)],
}
"""(tokens in the cache, new tokens) of each sequence."""
SMALL_STEPS: dict[str, list[tuple[int, int]]] = {
    "decode": [(5, 1), (33, 1), (0, 1)],
    "mixed": [(40, 1), (17, 9), (0, 21)],
}


class PackedCase(NamedTuple):
    """The inputs of a step, as the packed step over ONNX Runtime has them.

    The last `num_padding` rows are padding: one token each that is stored nowhere.  `stored[t]` is whether
    token t is written; otherwise the cache already holds the key and value of a real token.  The last
    block is scratch and belongs to no sequence.
    """

    cumulative: Ints  # [B + 1]
    past: Ints  # [B]
    block_table: Ints  # [B, W]
    slots: Ints  # [T]
    num_blocks: int
    num_padding: int
    stored: NDArray[np.bool_]  # [T]

    @property
    def num_tokens(self) -> int:
        return int(self.cumulative[-1])

    @property
    def metadata(self) -> Ints:
        new = np.diff(self.cumulative)
        return np.array([new.max(), (self.past + new).max(), 0], np.int32)


def packed_case(
    sequences: list[tuple[int, int]], block_tokens: int, seed: int, padding: int = 2, columns: int = 1
) -> PackedCase:
    """A case with blocks assigned at random from a larger pool; `columns` unused table columns are added."""
    rng = np.random.default_rng(seed)
    sizes = [-(-(past + new) // block_tokens) for past, new in sequences]
    num_blocks = sum(sizes) + 3
    scratch, dealt = num_blocks - 1, rng.permutation(num_blocks - 1)
    table = np.full((len(sequences) + padding, max(sizes) + columns), scratch, np.int32)
    slots = []
    for row, (past, new) in enumerate(sequences):
        own, dealt = dealt[: sizes[row]], dealt[sizes[row] :]
        table[row, : sizes[row]] = own
        positions = np.arange(past, past + new)
        slots.append(own[positions // block_tokens] * block_tokens + positions % block_tokens)
    counts = np.array([new for _, new in sequences] + [1] * padding)
    in_cache = np.array([past for past, _ in sequences] + [0] * padding, np.int32)
    flat = np.concatenate([*slots, np.full(padding, -1)]).astype(np.int32)
    stored = flat >= 0
    longest = int(np.argmax(counts))  # a prefix of its new tokens is in the cache already, by another
    if counts[longest] > 16:
        at = int(counts[:longest].sum())
        stored[at : at + 8] = False
    cumulative = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return PackedCase(cumulative, in_cache, table, flat, num_blocks, padding, stored)


class Tensors(NamedTuple):
    """query[T, H, D], key and value[T, KV, D], and pools [num_blocks, block_tokens, KV, D] before the step.

    All are float32 that the node's types hold exactly; pools hold codes where the cache is quantized.
    """

    query: Floats
    key: Floats
    value: Floats
    key_pool: Floats
    value_pool: Floats


def random_tensors(kind: NodeKind, case: PackedCase, scales: tuple[float, float], seed: int) -> Tensors:
    """Normal numbers everywhere, also in unused blocks."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Floats:
        return rounded(rng.standard_normal(shape, np.float32), kind.element)

    pool = (case.num_blocks, kind.block_tokens, kind.num_kv_heads, kind.head_size)
    key, value = (normal(case.num_tokens, kind.num_kv_heads, kind.head_size) for _ in range(2))
    tensors = Tensors(
        normal(case.num_tokens, kind.num_heads, kind.head_size),
        key,
        value,
        encode(normal(*pool), kind.cache, scales[0]),
        encode(normal(*pool), kind.cache, scales[1]),
    )
    early = (case.slots >= 0) & ~case.stored
    _store(tensors.key_pool, encode(key, kind.cache, scales[0]), case.slots, early)
    _store(tensors.value_pool, encode(value, kind.cache, scales[1]), case.slots, early)
    return tensors


def reference(
    kind: NodeKind, case: PackedCase, tensors: Tensors, scales: tuple[float, float]
) -> tuple[Floats, Floats, Floats]:
    """Expected outputs: attended float32[T, H * D] (0 for padding), and both pools after the step."""
    pools = []
    for pool, new, scale in (
        (tensors.key_pool, tensors.key, scales[0]),
        (tensors.value_pool, tensors.value, scales[1]),
    ):
        after = pool.copy()
        _store(after, encode(new, kind.cache, scale), case.slots, case.stored)
        pools.append(after)
    attended = np.zeros((case.num_tokens, kind.num_heads * kind.head_size), np.float32)
    for row in range(len(case.past) - case.num_padding):
        start, end = case.cumulative[row], case.cumulative[row + 1]
        length = int(case.past[row] + end - start)
        key, value = (
            _context(pool, case.block_table[row], length) * scale
            for pool, scale in zip(pools, scales, strict=True)
        )
        attended[start:end] = _attend(kind, tensors.query[start:end], key, value).reshape(end - start, -1)
    return attended, pools[0], pools[1]


def _attend(kind: NodeKind, query: Floats, key: Floats, value: Floats) -> Floats:
    """query[S, H, D] at the last S of key's and value's [L, KV, D] positions → [S, H, D]."""
    group = kind.num_heads // kind.num_kv_heads
    heads = query.reshape(len(query), kind.num_kv_heads, group, kind.head_size)
    scores = np.einsum("skgd,lkd->kgsl", heads, key, optimize=True) * np.float32(kind.scale)
    if kind.softcap:
        scores = kind.softcap * np.tanh(scores / kind.softcap)
    at = np.arange(len(key) - len(query), len(key))[:, None]
    seen = np.arange(len(key)) <= at
    if kind.window > 0:
        seen &= np.arange(len(key)) > at - kind.window
    scores = np.where(seen, scores, -np.inf)
    if kind.sinks:
        column = kind.sink_of_head.reshape(kind.num_kv_heads, group, 1, 1)
        scores = np.concatenate([scores, np.broadcast_to(column, (*scores.shape[:3], 1))], -1)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = (weights / weights.sum(axis=-1, keepdims=True))[..., : len(key)]
    return np.einsum("kgsl,lkd->skgd", weights, value, optimize=True).reshape(query.shape)


def _context(pool: Floats, blocks: Ints, length: int) -> Floats:
    tokens = pool[blocks[: -(-length // pool.shape[1])]]
    return tokens.reshape(-1, *pool.shape[2:])[:length]


def _store(pool: Floats, new: Floats, slots: Ints, which: NDArray[np.bool_]) -> None:
    pool.reshape(-1, *pool.shape[2:])[slots[which]] = new[which]


def rounded(values: Floats, element: str) -> Floats:
    """The nearest float32 that "f16" or "bf16" holds, ties to even; "f32" changes nothing."""
    if element == "f16":
        return values.astype(np.float16).astype(np.float32)
    if element == "bf16":
        bits = values.view(np.uint32)
        bits = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
        return bits.astype(np.uint32).view(np.float32)
    return values


def encode(values: Floats, cache: str, scale: float) -> Floats:
    """What the cache stores for `values`, as float32: int8 steps, e4m3 numbers, or the values themselves."""
    if cache == "i8":
        return np.clip(np.rint(values / np.float32(scale)), -INT8_MAX - 1, INT8_MAX)
    if cache == "f8":
        return _e4m3(values / np.float32(scale))
    return values


def _e4m3(values: Floats) -> Floats:
    """The nearest number of float8 e4m3fn (Micikevicius et al., "FP8 formats for deep learning", 2022)."""
    _, exponent = np.frexp(values)
    step = np.exp2(np.maximum(exponent - 1, E4M3_MIN_EXPONENT) - E4M3_MANTISSA).astype(np.float32)
    return np.clip(np.rint(values / step) * step, -E4M3_MAX, E4M3_MAX)
