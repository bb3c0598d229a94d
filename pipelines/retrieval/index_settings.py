"""How an index is made: by which model, and in which form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pipelines.retrieval.cutting import Cutting
from pipelines.retrieval.dense_vectors import Precision
from pipelines.retrieval.near_graph import LEAST_ROWS
from pipelines.values.node_values import Vectors

Embed = Callable[[list[str]], Mapping[str, Vectors]]
"""The vectors of texts by their kind; may be called in another thread."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """How an index is made.  Where one of these differs from what is there, all is made anew.

    `kinds`: those of `embed`: dense, float32[texts, size], sparse, or both.  From `graph_from` dense vectors
    on an index has a graph of them.
    """

    model: str
    embed: Embed
    cutting: Cutting = field(default_factory=Cutting)
    precision: Precision = "float16"
    kinds: tuple[str, ...] = ("dense",)
    graph_from: int = LEAST_ROWS
