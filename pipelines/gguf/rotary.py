"""The pace of rotary positions: by how much each pair of a head's numbers turns from token to token."""

from __future__ import annotations

import numpy as np

from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.tensor_types import Floats

BASE = 10000.0
LARGEST_BASE = 1e15


def read_pace(metadata: Metadata, head_size: int, divisors: Floats | None) -> Floats:
    """float32[head_size / 2], radians a token; `divisors` is the tensor rope_freqs of llama 3 files.

    Raises `GgufError` for a scaling that is not served.
    """
    pace = make_pace(metadata.own("rope.freq_base", BASE, 1, LARGEST_BASE), head_size)
    kind = metadata.own_text("rope.scaling.type") or "none"
    factor = metadata.own("rope.scaling.factor", 1, 1e-6)
    if kind not in ("none", "linear"):
        raise GgufError(f"scales its positions by {kind}; none, linear and llama 3's factors are served")
    if kind == "linear":
        pace = pace / factor
    if divisors is not None:
        if divisors.size != pace.size or not (divisors > 0).all():
            raise GgufError(f"rope_freqs.weight has {divisors.size} factors, not {pace.size} above 0")
        pace = pace / divisors.reshape(-1)
    return pace.astype(np.float32)


def make_pace(base: float, head_size: int) -> Floats:
    """The pace without any scaling."""
    return (base ** -(np.arange(0, head_size, 2) / head_size)).astype(np.float32)
