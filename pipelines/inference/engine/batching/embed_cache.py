"""Rows that an encoder gave for images, found again by the name of what it read."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.engine.batching.batched_request import Texts

Rows = NDArray[np.float32]


class EmbedCache:
    """At most `max_bytes` of rows; those that were used least recently leave first.  Not safe for threads.

    A name is a digest of what was read, so that different images never share.
    """

    def __init__(self, max_bytes: int) -> None:
        self.num_bytes = 0
        self._max_bytes = max_bytes
        self._rows: OrderedDict[bytes, Rows] = OrderedDict()

    def find(self, name: bytes) -> Rows | None:
        rows = self._rows.get(name)
        if rows is not None:
            self._rows.move_to_end(name)
        return rows

    def add(self, name: bytes, rows: Rows) -> None:
        """Store a copy, where it fits at all."""
        if name in self._rows or rows.nbytes > self._max_bytes:
            return
        self._rows[name] = rows.copy()
        self.num_bytes += rows.nbytes
        while self.num_bytes > self._max_bytes:
            self.num_bytes -= self._rows.popitem(last=False)[1].nbytes

    def fill(self, texts: Texts, size: int) -> int:
        """Write the outputs that are known, float32[num_rows, size] of each text, and leave the others to be
        run.  Gives how many are known.
        """
        cached = [self.find(name) for name in texts.names]
        known = [item for item, rows in enumerate(cached) if rows is not None]
        if not known:
            return 0
        outputs = np.empty((len(texts.ids), size), np.float32)
        for item in known:
            outputs[texts.span(item)] = cached[item]
        texts.outputs[0] = outputs
        texts.order = texts.order[~np.isin(texts.order, known)]
        texts.remaining = len(texts.order)
        return len(known)

    def store(self, texts: Texts) -> None:
        """Store the outputs that were computed, those of `order`; all of the request are there."""
        outputs = texts.outputs[0]
        assert isinstance(outputs, np.ndarray), "the embeddings of images are no lists"
        for item in texts.order.tolist():
            self.add(texts.names[item], outputs[texts.span(item)])
