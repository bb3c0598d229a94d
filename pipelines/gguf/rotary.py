"""Rotary positions: by how much each pair of a head's numbers rotates from token to token."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pipelines.gguf.decoder_facts import DecoderFacts
from pipelines.gguf.errors import GgufError
from pipelines.gguf.linear_layers import LinearLayers
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.reader import Rows
from pipelines.gguf.tensor_types import Floats

BASE = 10000.0
LARGEST_BASE = 1e15
KINDS = ("none", "linear", "yarn", "longrope")
DIVISORS = "rope_freqs.weight"
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"
SECTIONS, NUM_AXES = "rope.dimension_sections", 3
"""How many pairs of each head's numbers a token's time, row and column rotate."""
ORIGINAL = "rope.scaling.original_context_length"


class Rotary(NamedTuple):
    """`pace`: float32[rotated / 2], radians a token; cosines and sines are multiplied by `factor`."""

    pace: Floats
    factor: float = 1.0


def read_rotary(metadata: Metadata, facts: DecoderFacts, linears: LinearLayers) -> Rotary:
    """The rotary positions of a file.  Raises `GgufError` for a scaling that is not served."""
    kind = metadata.own_text("rope.scaling.type") or "linear"
    if kind not in KINDS:
        raise GgufError(
            f"scales its positions by {kind}; {', '.join(KINDS)} and llama 3's factors are served"
        )
    base = metadata.own("rope.freq_base", BASE, 1, LARGEST_BASE)
    factor = metadata.own("rope.scaling.attn_factor", 1, 1e-6)
    pace = make_pace(base, facts.head.rotated)
    if kind == "longrope" or linears.has(LONG):
        return Rotary(pace / _chosen_factors(metadata, facts, linears), factor)
    scale = metadata.own("rope.scaling.factor", 1, 1e-6)
    if kind == "linear":
        pace = pace / np.float32(scale)
    if kind == "yarn":
        pace = pace * _yarn_shares(metadata, facts, base, scale)
        factor *= _yarn_factor(metadata, facts, scale)
    if linears.has(DIVISORS):
        pace = pace / _divisors(linears, DIVISORS, facts)
    return Rotary(pace, factor)


def read_local_rotary(metadata: Metadata, facts: DecoderFacts) -> Rotary:
    """The rotary positions of layers with a window, where they are not scaled."""
    base = metadata.own("rope.freq_base", BASE, 1, LARGEST_BASE)
    base = metadata.own("rope.freq_base_swa", facts.kind.local_base or base, 1, LARGEST_BASE)
    return Rotary(make_pace(base, facts.local_head.rotated))


def read_axes(metadata: Metadata, facts: DecoderFacts) -> Rows | None:
    """int64[rotated / 2]: which axis of positions (time, row, column) rotates each pair of a head's numbers;
    None for a decoder of one axis.  Raises `GgufError`.
    """
    if facts.kind.axes is None:
        return None
    sections = metadata.array(f"{facts.name}.{SECTIONS}")
    pairs = facts.head.rotated // 2
    if sections is None or len(sections) < NUM_AXES or sections[:NUM_AXES].sum() != pairs:
        raise GgufError(f"has no {SECTIONS} of {pairs} pairs on {NUM_AXES} axes")
    counts = sections[:NUM_AXES].astype(np.int64)
    if facts.kind.axes == "sections":
        return np.repeat(np.arange(NUM_AXES), counts)
    number = np.arange(pairs)
    axis = number % NUM_AXES
    return np.where(number < NUM_AXES * counts[axis], axis, 0)


def make_pace(base: float, rotated: int) -> Floats:
    """The pace without any scaling."""
    return (base ** -(np.arange(0, rotated, 2) / rotated)).astype(np.float32)


def _chosen_factors(metadata: Metadata, facts: DecoderFacts, linears: LinearLayers) -> Floats:
    """Longrope's factors: the long ones for every text where the context is longer than the original one.

    Keys stay in the cache, so a text cannot change its factors when it grows.
    """
    long, short = (_divisors(linears, name, facts) for name in (LONG, SHORT))
    return long if facts.context > metadata.count(ORIGINAL, facts.context) else short


def _yarn_shares(metadata: Metadata, facts: DecoderFacts, base: float, scale: float) -> Floats:
    """What the pace of each pair is multiplied by: 1 where it rotates often in the original context, else
    1 / `scale`, with a ramp between `beta_fast` and `beta_slow` rotations.
    """
    context, size = metadata.count(ORIGINAL, facts.context), facts.head.rotated
    fast = metadata.own("rope.scaling.yarn_beta_fast", 32, 1e-6)
    slow = metadata.own("rope.scaling.yarn_beta_slow", 1, 1e-6)
    if base <= 1:
        raise GgufError(f"scales its positions by yarn, with a rope.freq_base of {base}")

    def pair_of(turns: float) -> float:
        return size * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = pair_of(fast), pair_of(slow)
    if facts.kind.rounds_yarn:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, size - 1)
    ramp = np.clip((np.arange(size // 2) - first) / max(last - first, 0.001), 0, 1)
    shares: Floats = (1 - ramp + ramp / scale).astype(np.float32)
    return shares


def _yarn_factor(metadata: Metadata, facts: DecoderFacts, scale: float) -> float:
    """What yarn multiplies cosines and sines by; latent attention may multiply the scores by it instead."""
    growth, slope = 0.1 * math.log(max(scale, 1)), metadata.own("rope.scaling.yarn_log_multiplier", 0)
    if facts.latent and slope:
        return 1.0
    return (growth + 1) / (growth * slope + 1)


def _divisors(linears: LinearLayers, name: str, facts: DecoderFacts) -> Floats:
    divisors = linears.vector(name, facts.head.rotated // 2)
    if not (divisors > 0).all():
        raise GgufError(f"{name} has factors that are not above 0")
    return divisors
