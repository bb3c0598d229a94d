"""The index node: searches an index of passages, in the engine host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np
from pydantic import Field

from graphs.node import FolderPath, Node, NodeConfig, Place
from pipelines.base.errors import EngineError
from pipelines.inference.contracts.tensor_contract import TensorPort
from pipelines.nodes.interface import Loading
from pipelines.retrieval.dense_vectors import Floats
from pipelines.retrieval.filters import where
from pipelines.retrieval.index_reader import IndexReader, check_index
from pipelines.retrieval.index_version import Query
from pipelines.retrieval.postings import Ids
from pipelines.values.node_values import Tensors
from pipelines.values.search_values import Hit

VECTORS, REQUEST, HITS = "vectors", "request", "hits"
INPUTS = {
    VECTORS: TensorPort(VECTORS, "float32", (None, None)),
    REQUEST: TensorPort(REQUEST, "bytes", (1,)),
}
OUTPUTS = {HITS: TensorPort(HITS, "bytes", (1,))}


class Wanted(msgspec.Struct, frozen=True):
    """A search as JSON on its way to the engine host: the queries, and what holds for all of them.

    `terms`: the ids and weights of each query's sparse vector, where it has one.
    """

    queries: list[str]
    top: int
    weights: dict[str, float]
    filters: msgspec.Raw = msgspec.Raw(b"null")
    terms: list[tuple[list[int], list[float]]] | None = None

    def as_queries(self) -> list[Query]:
        """Raises RequestError for a wrong filter."""
        condition = None if bytes(self.filters) == b"null" else where(msgspec.json.decode(self.filters))
        terms = [_arrays(*own) for own in self.terms] if self.terms else [None] * len(self.queries)
        pairs = zip(self.queries, terms, strict=True)
        return [Query(text, self.top, self.weights, condition, own) for text, own in pairs]


def _arrays(ids: list[int], weights: list[float]) -> tuple[Ids, Floats]:
    return np.array(ids, np.int32), np.array(weights, np.float32)


class Index(Node):
    """Searches an index that `braid index` has written, by vectors, words, or several of these.

    A version that is published while it serves is searched within a second.
    """

    place: ClassVar[Place] = "step"

    class Config(NodeConfig):
        path: FolderPath = Field(description="the folder that `braid index` has written")

    def load(self, resources: Loading) -> None:
        """Raises FileNotFoundError, OSError, sqlite3.Error and ValueError for an index that is damaged."""
        self.reader = IndexReader(self.folder / self.config.path)

    def run(self, tensors: Tensors) -> Tensors:
        """Raises RequestError for a wrong filter or kind, EngineError for vectors of another model."""
        queries = msgspec.json.decode(tensors[REQUEST][0], type=Wanted).as_queries()
        try:
            hits = self.reader.search(queries, tensors[VECTORS])
        except ValueError as error:
            raise EngineError(str(error)) from None
        reply = np.empty(1, object)
        reply[0] = msgspec.json.encode(hits)
        return Tensors({HITS: reply})

    @classmethod
    def check_files(cls, config: Config, folder: Path) -> None:
        """Raises as `check_index`."""
        check_index(folder / config.path)

    @property
    def opened(self) -> Mapping[str, str]:
        """What the log says of it."""
        about = self.reader.about
        return {"index": f"{about.passages} passages of {about.documents} documents, by {about.model}"}

    def close(self) -> None:
        self.reader.close()


def as_tensors(vectors: np.ndarray, wanted: Wanted) -> Tensors:
    """A search on its way to the engine host."""
    request = np.empty(1, object)
    request[0] = msgspec.json.encode(wanted)
    return Tensors({VECTORS: vectors, REQUEST: request})


def hits_of(reply: Tensors) -> list[list[Hit]]:
    """What came back from there."""
    return msgspec.json.decode(reply[HITS][0], type=list[list[Hit]])
