"""The results of a batcher's body, as requests name them and as the engine numbers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphs.errors import listed
from graphs.graph import Binding
from pipelines.base.errors import RequestError
from pipelines.values.node_values import Held, PooledOutputs, SparseVectors, Tensors, Vectors

QUERIES = ("query", "search_query")
"""The purposes of a request for vectors of queries."""
DENSE, SPARSE, COLBERT = "dense", "sparse", "colbert"
"""Kinds of vectors: one for each text, one over the vocabulary, one for each token."""


class ResultNames:
    """The results of a body in order: the name of each line, and the kind of its vectors."""

    def __init__(self, engine: Binding | None) -> None:
        lines = {line.name: line for line in engine.body} if engine else {}
        self.kinds = {line.name: _kind(line, lines) for line in engine.results} if engine else {}
        self.kinds = self.kinds or {DENSE: DENSE}

    def place(self, word: str, own: str | None = None, field: str = "embedding_kinds") -> int:
        """The place of the result of this name, else of the one of this kind: `own`, or the first.

        Raises RequestError, which names the field that wants it.
        """
        names, kinds = [*self.kinds], [*self.kinds.values()]
        if own in self.kinds and word == self.kinds[own]:
            return names.index(own)
        if word in names:
            return names.index(word)
        if word in kinds:
            return kinds.index(word)
        known = [*dict.fromkeys([*kinds, *names])]
        raise RequestError(f"this model has no `{word}` vectors; it has {listed(known)}", field)

    def read(self, reply: Tensors, wanted: Mapping[str, int]) -> PooledOutputs:
        """The engine's reply as the lines after the batcher read it; `wanted` are the results by name."""
        if "held" in reply:
            return PooledOutputs([], Held(int(reply["held"][0]), reply["lengths"].tolist()))
        named = {word: _vectors(reply, f"{place}." if place else "") for word, place in wanted.items()}
        return PooledOutputs(next(iter(named.values())), named=named)


def _kind(line: Binding, lines: Mapping[str, Binding]) -> str:
    """The kind of a result, which is that of the nearest line that has one."""
    kind = kind_of(line.type_name, line.config)
    above = [lines[source.root] for source in line.sources.values() if source.root in lines]
    return kind or (_kind(above[0], lines) if above else DENSE)


def kind_of(type_name: str, config: Any) -> str | None:
    """The kind of what a line of this type gives; None: that of the line above it."""
    if type_name in ("sparse", "sparse_tokens"):
        return SPARSE
    return COLBERT if type_name == "colbert" or getattr(config, "how", None) == "none" else None


def _vectors(reply: Tensors, prefix: str) -> Vectors:
    values, lengths = reply[f"{prefix}embeddings"], reply.get(f"{prefix}lengths")
    if lengths is None:
        return values
    if f"{prefix}ids" in reply:
        return SparseVectors(reply[f"{prefix}ids"], values, lengths, int(reply[f"{prefix}size"][0]))
    return np.split(values, np.cumsum(lengths)[:-1])


def places_tensor(places: Sequence[int]) -> Tensors:
    """What says to the engine which results are wanted, where it is not the first one alone."""
    wanted = dict.fromkeys(places)
    return Tensors() if [*wanted] == [0] else Tensors(results=np.array([*wanted], np.uint8))
