"""The metadata of a GGUF file, each entry checked as it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any, TypeVar

import numpy as np

from pipelines.gguf.errors import GgufError

T = TypeVar("T")
ARCHITECTURE = "general.architecture"
UNREAD = frozenset(
    {"vocab_size", "feed_forward_length", "rope.scaling.finetuned", "rope.scaling.original_context_length"}
    | {"tensor_data_layout", "use_parallel_residual", "expert_used_count", "expert_feed_forward_length"}
    | {"expert_shared_feed_forward_length", "expert_shared_count"}
    | {"leading_dense_block_count", "interleave_moe_layer_step", "n_deepstack_layers"}
)
"""Entries of an architecture that say nothing which the tensors and the other entries do not."""


class Metadata:
    """Entries by key.  A key of the architecture that no one has read is one that Braid does not know."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields
        self._read: set[str] = set()
        self.architecture = self.text(ARCHITECTURE) or ""

    def text(self, key: str) -> str | None:
        return self._typed(key, str, "a text")

    def texts(self, key: str) -> list[str]:
        return self._typed(key, list, "a list of texts") or []

    def flag(self, key: str) -> bool | None:
        return self._typed(key, bool, "true or false")

    def array(self, key: str) -> np.ndarray | None:
        return self._typed(key, np.ndarray, "a list of numbers")

    def number(
        self, key: str, default: float | None = None, least: float = 0, most: float = 1 << 31
    ) -> float:
        """A finite number between `least` and `most`.  Raises `GgufError` without one and a default."""
        value = self._get(key)
        if isinstance(value, np.ndarray) and len(value) and (value == value[0]).all():
            value = value[0].item()  # one number for each layer, all of them equal
        if value is None and default is not None:
            return float(default)
        if value is None:
            raise GgufError(f"has no {key}")
        if isinstance(value, (bool, str, list, np.ndarray)):
            raise GgufError(f"{key} is {_short(value)}, not one number")
        if not math.isfinite(value) or not least <= value <= most:
            raise GgufError(f"{key} is {value}, not within {least} and {most}")
        return float(value)

    def own(self, name: str, default: float | None = None, least: float = 0, most: float = 1 << 31) -> float:
        """A number of the architecture."""
        return self.number(f"{self.architecture}.{name}", default, least, most)

    def count(self, name: str, default: int | None = None, least: int = 1, most: int = 1 << 31) -> int:
        """A whole number of the architecture."""
        return int(self.own(name, default, least, most))

    def per_layer(self, name: str, layers: int) -> list[float] | None:
        """A number of each layer, which may be one number for all; None where the file has none."""
        value = self._get(f"{self.architecture}.{name}")
        if value is None:
            return None
        if not isinstance(value, np.ndarray):
            return [self.own(name)] * layers
        if len(value) < layers or not np.isfinite(value).all():
            raise GgufError(f"{self.architecture}.{name} is {_short(value)}, not a number for each layer")
        numbers: list[float] = value[:layers].tolist()
        return numbers

    def own_text(self, name: str) -> str | None:
        return self.text(f"{self.architecture}.{name}")

    def refuse_unread(self, harmless: Set[str] = frozenset()) -> None:
        """Raise `GgufError` for entries of the architecture whose meaning was not taken into the graph."""
        prefix = f"{self.architecture}."
        known = self._read | harmless | {prefix + name for name in UNREAD}
        unread = sorted(key for key in self._fields if key.startswith(prefix) and key not in known)
        if unread:
            raise GgufError(f"says {', '.join(unread[:5])}, which is not served for {self.architecture}")

    def _get(self, key: str) -> Any:
        self._read.add(key)
        return self._fields.get(key)

    def _typed(self, key: str, kind: type[T], what: str) -> T | None:
        value = self._get(key)
        if value is not None and not isinstance(value, kind):
            raise GgufError(f"{key} is {_short(value)}, not {what}")
        return value


def _short(value: object) -> str:
    return f"{value!r:.60}"
