"""Rows that stand for the embeddings of a prompt's tokens: what a model sees in the place of an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.engine.sequences.grid_positions import GridPositions


@dataclass(frozen=True, eq=False)
class PromptEmbeds:
    """The images of one prompt, in order: that of place i has the tokens from `starts[i]` on, one for each of
    its rows, `values[i]`, float32[num_rows, row_size]; `digests[i]` names its content.  `grids[i]` are the
    rows and columns of its tokens, for models whose positions depend on them; else there are none.

    They stay here until the request ends, so that a sequence that was preempted finds them again.
    """

    starts: Sequence[int]
    values: Sequence[NDArray[np.float32]]
    digests: Sequence[bytes]
    grids: Sequence[tuple[int, int]] = ()

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """int64[all rows], ascending: the token of each row."""
        return np.concatenate([np.arange(begin, end) for begin, end in self._spans])

    @cached_property
    def rows(self) -> NDArray[np.float32]:
        """float32[all rows, row_size]."""
        return self.values[0] if len(self.values) == 1 else np.concatenate(self.values)

    @cached_property
    def positions(self) -> GridPositions | None:
        """The positions of the prompt where its images are grids; None where each token has its place."""
        return GridPositions(self.starts, self.grids) if self.grids else None

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        """The first token of each image, and the one after its last."""
        return [(start, start + len(rows)) for start, rows in zip(self.starts, self.values, strict=True)]

    @property
    def end(self) -> int:
        """The token after the last image."""
        return self._spans[-1][1]

    def within(self, start: int, end: int) -> slice:
        """Which of `places` and `rows` are those of tokens [start, end)."""
        return slice(*np.searchsorted(self.places, (start, end)).tolist())

    def uncut(self, end: int) -> int:
        """`end`, or the first token of the image that an end of tokens there would cut."""
        return next((start for start, after in self._spans if start < end < after), end)

    def digest(self, start: int, end: int) -> bytes:
        """Which images tokens [start, end) have a part of, and where these begin; b"" without any."""
        return b"".join(
            digest + begin.to_bytes(8, "little")
            for digest, (begin, after) in zip(self.digests, self._spans, strict=True)
            if begin < end and start < after
        )
