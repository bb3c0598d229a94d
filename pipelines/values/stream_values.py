"""The values between request nodes that arrive later: in pieces, whole, or in parts.

Each class is a port type of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pipelines.values.node_values import Tokens
from pipelines.wire.sampling_params import SamplingParams

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)
T = TypeVar("T")
U = TypeVar("U")


class StreamStage(Protocol[In, Out]):
    """Turns the updates of one choice into other updates, one for one.

    The last update has `finish` set and carries what was held back.  A stage may finish earlier than its
    input (a stop string was found); nothing is pushed after that.
    """

    def push(self, update: In) -> Out: ...


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """One choice of a stream: `index` in the request, and the prompt it continues with its parameters."""

    index: int
    prompt: Tokens
    prompt_index: int
    params: SamplingParams


StageMaker = Callable[[StreamChoice], StreamStage[Any, Any]]
"""Makes the stage of one choice; called once the prompts were submitted."""


class Stream(Generic[T]):
    """A value that arrives in pieces: the submission to a generative engine, and the stages after it.

    `source` is a submission, or a `Deferred` of the stream that this one continues (`Deferred.stream`).
    Immutable: `pipe` returns a longer stream.  Nothing runs until a call reads it.
    """

    def __init__(self, source: Any, makers: tuple[StageMaker, ...] = ()) -> None:
        self.source = source
        self.makers = makers

    def pipe(self, maker: Callable[[StreamChoice], StreamStage[T, U]]) -> Stream[U]:
        """The updates after one more stage, which is made anew for each choice."""
        return Stream(self.source, (*self.makers, maker))


@dataclass(frozen=True, slots=True)
class Arrived(Generic[T]):
    """The source of a `Deferred` whose value is there already."""

    value: T


class Deferred(Generic[T]):
    """A value that arrives whole: a submission to an engine that replies once, and what is made of its reply.
    A value that is `Arrived` has no submission.

    Without a submission (None) there is no value, and nothing may read it.

    Immutable, as a `Stream` is: `map` returns what is made of it.  Nothing runs until a call reads it.
    """

    def __init__(self, source: Any, makers: tuple[Callable[[Any], Any], ...] = ()) -> None:
        self.source = source
        self.makers = makers

    def map(self, make: Callable[[T], U | Deferred[U]]) -> Deferred[U]:
        """What `make` returns for the value once it has arrived; a `Deferred` that it returns is resolved.

        `make` may raise RequestError; for a large value it runs in a thread, else on the event loop.
        """
        return Deferred(self.source, (*self.makers, make))

    def stream(self, make: Callable[[T], Stream[U]]) -> Stream[U]:
        """A stream that starts once the value has arrived: `make` submits its prompts.  Else as `map`."""
        return Stream(self.map(make))


class Series(Generic[T]):
    """A value that arrives in parts, in their order: submissions to an engine that replies once to each.

    Immutable, as a `Deferred` is.  Nothing runs until a call reads it.
    """

    def __init__(self, parts: Sequence[Deferred[T]]) -> None:
        self.parts = parts

    @property
    def source(self) -> Any:
        """The submission of the first part."""
        return self.parts[0].source

    def map(self, make: Callable[[T], U]) -> Series[U]:
        """What `make` returns for each part once it has arrived; as for `Deferred.map`."""
        return Series([part.map(make) for part in self.parts])
