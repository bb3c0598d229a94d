"""What an engine uses of the body of its node, and what a body uses of its lines; in the engine host."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from graphs.graph import Binding
from pipelines.inference.contracts.decoder_contract import DecoderSession
from pipelines.inference.contracts.encoder_contract import EncoderSession
from pipelines.inference.contracts.guide import GuideMaker
from pipelines.inference.engine.batching.threaded_engine import ThreadedEngine
from pipelines.inference.engine.generation_engine import GenerationEngine
from pipelines.inference.sampling.step_context import StepContext
from pipelines.nodes.line import Line
from pipelines.telemetry.step_profile import StepProfile
from pipelines.wire.sampling_params import SamplingParams


@runtime_checkable
class HasDecoder(Protocol):
    """A line that runs a decoder with a cache of its own."""

    @property
    def session(self) -> DecoderSession: ...


@runtime_checkable
class HasEncoder(Protocol):
    """A line that runs an encoder."""

    @property
    def encoder(self) -> EncoderSession: ...


@runtime_checkable
class OpensModel(Protocol):
    """A line that opens a model file."""

    @property
    def opened(self) -> Mapping[str, str]:
        """How the file is run, as the log says it: engine, device, what computes its linear layers."""


@runtime_checkable
class Drafting(Protocol):
    """A speculation node: one of the first lines of a body, before its model."""

    @property
    def num_draft_tokens(self) -> int:
        """Most tokens that it adds to a sequence in a step."""


@runtime_checkable
class PreparesStep(Protocol):
    """A line that starts to work on a step, in threads of its own, before the model runs."""

    def prepare(self, context: StepContext) -> None:
        """`context` is the one that the model gets."""


@runtime_checkable
class MeasuresSteps(Protocol):
    """A line that uses what idle steps of its session took."""

    def seed_cost(self) -> None:
        """Called once, when every session is warm."""


@runtime_checkable
class Guiding(Protocol):
    """A line that restricts outputs: to a grammar, or by a bound on reasoning."""

    def start(self, vocab_size: int, end_ids: frozenset[int]) -> None:
        """Called once, when the model is known."""

    def maker(self, params: SamplingParams) -> GuideMaker | None:
        """Makes the guides of a request, None where it restricts nothing; from any thread, may take long.

        Raises RequestError.
        """


class Body(Protocol):
    """The live lines of an engine node, called once per step or batch."""

    @property
    def bindings(self) -> tuple[Binding, ...]: ...

    @property
    def lines(self) -> Sequence[Line]: ...

    @property
    def profile(self) -> StepProfile: ...

    @property
    def num_draft_tokens(self) -> int:
        """Most draft tokens per sequence and step; 0 without a speculation node."""

    @property
    def sessions(self) -> list[DecoderSession]:
        """The decoders, in order."""

    @property
    def encoders(self) -> list[EncoderSession]:
        """The encoders, in order."""

    @property
    def guides(self) -> Guiding | None: ...

    def results(self, root: Any, wanted: Collection[str]) -> dict[str, Any]:
        """The values of some lines, for which only what they need is run."""

    def __call__(self, root: Any, /) -> Any:
        """The last line's value for the engine's: a step's context, a batch, tensors."""

    def warm(self) -> bool:
        """Prepare a part of what later runs will use, while none runs; whether more is left."""

    def close(self) -> None: ...


@runtime_checkable
class StartsEngine(Protocol):
    """An engine node."""

    def start(self, body: Body) -> GenerationEngine | ThreadedEngine[Any]:
        """The engine around a loaded body, which the engine closes.  Raises ValueError."""
