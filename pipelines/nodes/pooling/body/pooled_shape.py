"""The shape of the values between the lines of a batcher's body, as it is known when they are loaded."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import RowShape
from pipelines.nodes.interface import Loading


@runtime_checkable
class GivesVectors(Protocol):
    """A step node whose output has a shape that is known once it is loaded."""

    @property
    def gives(self) -> RowShape: ...


def given_above(resources: Loading) -> RowShape:
    """The shape of a step node's input.  Raises `ModelError` where no line above gives vectors."""
    assert resources.binding is not None, "a node is loaded with its line"
    (source,) = resources.binding.sources.values()
    above = resources.above.get(source.root)
    if not isinstance(above, GivesVectors):
        raise ModelError(f"`from: {source.root}` gives no vectors; put an encoder line above.")
    return above.gives
