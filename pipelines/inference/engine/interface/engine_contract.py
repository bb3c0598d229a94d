"""What the host uses of an engine: one contract for engines that the host steps and engines with a thread."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipelines.adapters.weights import BASE, HoldsAdapters
from pipelines.inference.contracts.guide import GuideMaker
from pipelines.inference.engine.interface.outputs import Output
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds
from pipelines.telemetry.engine_counts import Counts
from pipelines.telemetry.step_profile import StepProfile
from pipelines.wire.engine_view import EngineNodeKind, SequenceView
from pipelines.wire.requests import NO_ORIGIN, Origin, TokenRequest

Result = dict[str, NDArray[Any]] | Exception
ResultCallback = Callable[[Hashable, Result], None]


class EngineKind(Enum):
    """Where an engine's loop runs: in the host's main loop, step by step, or in a thread of the engine."""

    STEPPED = "stepped"
    THREADED = "threaded"


class GenerationRequest(TokenRequest, frozen=True):
    """What a worker asked for, with what the host has made ready for it.

    `guide` makes for each choice what restricts its tokens as `params.guide` requires.  With `params.beams`
    the choices are the `n` best of a search, best first; each gets one Output, at its end.  `encoder_states`
    are what each prompt's choices attend to, float32[num_states, hidden_size] of an encoder; [] for a model
    without
    them.  `images` are those of each prompt, None for one without any; [] where no prompt has any.  `adapter`
    is the load number of one that the engine holds.
    """

    guide: GuideMaker | None = None
    encoder_states: list[NDArray[np.float32]] = []
    images: list[PromptEmbeds | None] = []
    adapter: int = BASE


@dataclass(frozen=True, slots=True)
class TensorRequest:
    """Named arrays to run a body over; `outputs` names the arrays of the result, None: all.

    `on_result(key, result)` is called once, from a thread of the engine, unless the request is cancelled.
    Tenants take turns.  `images` are those that each text shows; [] where none does.
    `adapter` is the load number of one that the engine holds.
    """

    inputs: Mapping[str, NDArray[Any]]
    outputs: list[str] | None
    on_result: ResultCallback
    origin: Origin = NO_ORIGIN
    images: list[PromptEmbeds | None] = field(default_factory=list)
    adapter: int = BASE


class Identity(NamedTuple):
    """The origin of a request, to be shown: the id of its HTTP request, its age, its adapter, its tenant."""

    name: str = ""
    age_s: float = 0.0
    adapter: str | None = None
    tenant: str = ""


class EngineView(NamedTuple):
    """What an engine shows: its first MAX_SEQUENCES, and where it has a cache the owners of its blocks.

    The owners of `block_map` are places in `sequences`.
    """

    kind: EngineNodeKind
    sequences: list[SequenceView]
    block_map: list[tuple[int, int]] | None = None


Request = TypeVar("Request", contravariant=True)


class Engine(Protocol[Request]):
    """Runs requests, each named by a key until it has ended.  All methods are for one thread, the host's."""

    @property
    def kind(self) -> EngineKind: ...

    @property
    def profile(self) -> StepProfile: ...

    def submit(self, key: Hashable, request: Request) -> None:
        """Queue a request.  Raises RequestError or Overloaded, and then nothing was queued."""

    def cancel(self, key: Hashable, choice: int | None = None) -> None:
        """End one choice, or all, without a result; what is unknown or ended already is no error."""

    def counts(self) -> Counts:
        """What the engine holds now and has done so far; the caller's own copy."""

    def view(self, identify: Callable[[Hashable], Identity]) -> EngineView:
        """What runs and waits now; `identify` gives what is shown of the request of a key."""

    def close(self) -> None:
        """Drop all requests and close the body, at once or when the run in progress has ended."""


class SteppedEngine(Engine[GenerationRequest], HoldsAdapters, Protocol):
    """An engine that the host steps while it has work."""

    @property
    def kind(self) -> Literal[EngineKind.STEPPED]: ...

    @property
    def has_work(self) -> bool: ...

    @property
    def step_tokens(self) -> int:
        """Tokens that all steps have computed, draft tokens included."""

    def abort(self, key: Hashable) -> list[Output]:
        """End all choices of a request, each with an Output; [] for one that is unknown."""

    def step(self) -> list[Output]:
        """Compute one step; [] when it has no outputs."""
