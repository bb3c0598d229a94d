"""The texts of one request: their ids, the order in which they run, and the outputs computed so far."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import neg
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.adapters.weights import BASE
from pipelines.inference.contracts.encoder_batch import Rows, RowShape
from pipelines.inference.engine.interface.engine_contract import ResultCallback
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds

Ints = NDArray[np.int64]
Arrays = Mapping[str, NDArray[Any]]


@dataclass(slots=True, eq=False)
class Texts:
    """One request.  `ids` int32[num_tokens] and `types`, if any, are of all texts, one after another;
    `features` float32[num_texts, size, columns], if any; of images that are `grids` of tokens,
    int32[num_texts, 2], they are float32[num_tokens, size].

    `names`, of images, are digests of what is read of each; those that are `stored` have no features.
    `rows` are the places of the first features of each, [] without features.  `order` are the texts that are
    run, from the longest to the shortest; `remaining` of them have no output yet.  `results` are the places
    of the body's results that the request wants, and `outputs` those of each that were computed.  `images`
    are those that each text shows, [] where none does.  All are run with the adapter of the load number
    `adapter`.  A larger `priority` runs later.  `num_done` of its tokens were run.
    """

    key: Hashable
    on_result: ResultCallback
    ids: NDArray[np.int32]
    lengths: NDArray[np.int32]
    types: NDArray[np.uint8] | None
    activate: bool
    priority: int
    arrived_s: float
    order: Ints
    offsets: Ints
    remaining: int
    features: NDArray[np.float32] | None = None
    grids: NDArray[np.int32] | None = None
    results: tuple[int, ...] = (0,)
    outputs: dict[int, Rows] = field(default_factory=dict)
    names: list[bytes] = field(default_factory=list)
    stored: NDArray[np.bool_] | None = None
    images: Sequence[PromptEmbeds | None] = ()
    adapter: int = BASE
    num_done: int = 0
    rows: Ints = field(init=False)

    def __post_init__(self) -> None:
        if self.features is None:
            self.rows = self.order[:0]
            return
        sizes = np.ones_like(self.offsets) if self.grids is None else self.lengths.astype(np.int64)
        if self.stored is not None:
            sizes = np.where(self.stored, 0, sizes)
        self.rows = sizes.cumsum() - sizes

    def span(self, item: int) -> slice:
        """The tokens of one text."""
        begin = int(self.offsets[item])
        return slice(begin, begin + int(self.lengths[item]))

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """(length, start, end): which places of `order` have texts of one length, the longest first."""
        lengths, start = self.lengths[self.order].tolist(), 0
        while start < len(lengths):
            end = bisect_right(lengths, -lengths[start], start, key=neg)
            yield lengths[start], start, end
            start = end

    def answer(self, shapes: Sequence[RowShape]) -> dict[str, NDArray[Any]]:
        """The outputs of all texts, in the order of the request: of result 1 as `1.embeddings`, and so on.

        `lengths` are the rows of each text, where that is not 1; `ids` are the places of sparse numbers, and
        `size` is how many places there are.
        """
        arrays: dict[str, NDArray[Any]] = {}
        for place in self.results:
            prefix = f"{place}." if place else ""
            parts = _arrays(self.outputs[place], shapes[place], self.lengths)
            arrays |= {prefix + name: array for name, array in parts.items()}
        return arrays


def _arrays(rows: Rows, shape: RowShape, num_tokens: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
    if not isinstance(rows, list):
        return {"embeddings": rows} | ({"lengths": num_tokens} if shape.per_token else {})
    joined, lengths = np.concatenate(rows), np.array([*map(len, rows)], np.int32)
    if not shape.is_sparse:
        return {"embeddings": joined, "lengths": lengths}
    numbers = {"embeddings": joined["weight"].copy(), "ids": joined["id"].copy()}
    return {**numbers, "lengths": lengths, "size": np.array([shape.size], np.int64)}


def texts_of(
    key: Hashable,
    inputs: Arrays,
    on_result: ResultCallback,
    now_s: float,
    images: Sequence[PromptEmbeds | None] = (),
    adapter: int = BASE,
) -> Texts:
    """A request as it came over the wire: the tensors that `pipelines.nodes.pooling.batcher` writes."""
    lengths = inputs["lengths"]
    return Texts(
        key,
        on_result,
        inputs["ids"],
        lengths,
        inputs.get("types"),
        bool(inputs["activate"][0]) if "activate" in inputs else True,
        int(inputs["priority"][0]) if "priority" in inputs else 0,
        now_s,
        (-lengths).argsort(kind="stable"),
        lengths.cumsum(dtype=np.int64) - lengths,
        len(lengths),
        inputs.get("features"),
        inputs.get("grids"),
        names=[name.tobytes() for name in inputs["names"]] if "names" in inputs else [],
        stored=inputs["stored"].astype(bool) if "stored" in inputs else None,
        results=tuple(inputs["results"].tolist()) if "results" in inputs else (0,),
        images=images,
        adapter=adapter,
    )


@dataclass(frozen=True, slots=True)
class BatchPart:
    """Texts of one request in a batch, all of `length` tokens: the places `start` to `end` of its order."""

    request: Texts
    length: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def items(self) -> Ints:
        """Which texts of the request these are."""
        return self.request.order[self.start : self.end]

    @property
    def tokens(self) -> Ints:
        """int64[num_texts, length]: indices of their tokens in the request's ids."""
        return self.request.offsets[self.items][:, None] + np.arange(self.length)

    @property
    def features(self) -> NDArray[np.float32] | None:
        """The features of its windows, or of all tokens of its images; None for texts of ids."""
        features = self.request.features
        if features is None:
            return None
        rows = self.request.rows[self.items]
        if self.request.grids is not None:
            rows = (rows[:, None] + np.arange(self.length)).ravel()
        return features[rows]

    @property
    def grids(self) -> NDArray[np.int32] | None:
        """int32[num_texts, 2]: rows and columns of tokens of its images; None without."""
        return None if self.request.grids is None else self.request.grids[self.items]

    @property
    def images(self) -> list[PromptEmbeds | None]:
        """The images that each of its texts shows."""
        shown = self.request.images
        return [shown[item] if shown else None for item in self.items]
