"""How a tensor model is opened: device, engine, and what its ports are made to be before that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipelines.inference.contracts.device_errors import ModelError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Reshaping:
    """Shapes (-1: a free length), a batch size and layouts for a model; `None` names its only input.

    Hashable, so that a model with equal settings is opened once.
    """

    shapes: tuple[tuple[str | None, Shape], ...] = ()
    batch_size: int | None = None
    layouts: tuple[tuple[str | None, str], ...] = ()

    @classmethod
    def of(
        cls,
        shape: list[int] | Mapping[str, list[int]] | None,
        batch_size: int | None,
        layout: str | Mapping[str, str] | None,
    ) -> Reshaping:
        """Raises `ModelError` for a shape beside a batch size, and lengths below -1."""
        if shape and batch_size is not None:
            raise ModelError("batch_size: `shape` holds it already; remove one of them.")
        if batch_size == 0:
            raise ModelError("batch_size: a number from 1 on, or -1 for any.")
        shapes = shape if isinstance(shape, Mapping) else {None: shape} if shape else {}
        layouts = layout if isinstance(layout, Mapping) else {None: layout} if layout else {}
        for lengths in shapes.values():
            if min(lengths, default=1) < -1:
                raise ModelError(f"shape: {lengths} has a length below -1; -1 is a free length.")
        return cls(
            tuple((name, tuple(lengths)) for name, lengths in shapes.items()),
            batch_size,
            tuple(layouts.items()),
        )

    def __bool__(self) -> bool:
        return self != NO_RESHAPING

    @property
    def settings(self) -> str:
        """The names of those that are set, for messages."""
        given = {"shape": self.shapes, "batch_size": self.batch_size is not None, "layout": self.layouts}
        return ", ".join(name for name, value in given.items() if value)


NO_RESHAPING = Reshaping()


@dataclass(frozen=True)
class TensorSettings:
    """`engine` None: what suits the file and the other settings; `threads` None: one for each core.

    `streams`: parts of those threads, each for one of the runs that take place at once; None: one.
    """

    device: str = "cpu"
    engine: str | None = None
    threads: int | None = None
    precision: str | None = None
    streams: int | None = None
    reshaping: Reshaping = NO_RESHAPING

    @property
    def changes(self) -> str:
        """The names of those settings that change how a model computes, for messages."""
        given = {"precision": self.precision, "streams": self.streams}
        return ", ".join(filter(None, [self.reshaping.settings, *(name for name in given if given[name])]))


def port_name(named: str | None, known: Iterable[str], setting: str) -> str:
    """The port that a setting is about.  Raises `ModelError` for one that is not there."""
    names = list(known)
    if named is None and len(names) == 1:
        return names[0]
    if named not in names:
        said = f"the model has no `{named}`" if named else "the model has several inputs; name each"
        raise ModelError(f"{setting}: {said}. It has: {', '.join(names)}.")
    return named
