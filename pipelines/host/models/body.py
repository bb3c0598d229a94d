"""The live body of one engine node."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from graphs.graph import Binding
from pipelines.host.models.mapped_weights import MappedWeights
from pipelines.inference.contracts.decoder_contract import DecoderSession, RoutesExperts
from pipelines.inference.contracts.encoder_contract import EncoderSession
from pipelines.nodes.body_interface import (
    Drafting,
    Guiding,
    HasDecoder,
    HasEncoder,
    MeasuresSteps,
    OpensModel,
    PreparesStep,
)
from pipelines.nodes.line import Line
from pipelines.telemetry.step_profile import StepProfile

EXPERTS = "experts"
"""The phase of routed experts; that of the line which runs the model is without them."""


class LiveBody:
    """The live lines of an engine node, run in order once per step or batch."""

    def __init__(self, engine: Binding, lines: list[Line]) -> None:
        contract = engine.type.body
        assert contract is not None, "the checker accepts a body only where the node type has one"
        self.bindings = engine.body
        self.lines = lines
        self.weights = MappedWeights()
        """What its models have mapped; runs check that it is what it was."""
        self._root = contract.root
        self._preparing = [line.node for line in lines if isinstance(line.node, PreparesStep)]
        self._drafting = [line.node for line in lines if isinstance(line.node, Drafting)]  # the first lines
        self._routing = {
            line.name: line.node.session
            for line in lines
            if isinstance(line.node, HasDecoder) and isinstance(line.node.session, RoutesExperts)
        }
        self._chains: dict[frozenset[str], frozenset[str]] = {}  # wanted lines → those that they need
        self._phases = {line.name: _phase(line.name) for line in engine.body}
        self.profile = StepProfile({self._phases[line.name]: line.type_name for line in engine.body})

    def results(self, root: Any, wanted: Collection[str]) -> dict[str, Any]:
        """The values of these lines; lines that none of them needs do not run."""
        values, needed = {self._root: root}, self._needed(frozenset(wanted))
        self.weights.check()
        for line in self.lines:
            if line.name in needed:
                values[line.name] = line.node.run(**line.inputs(values))
                self.profile.mark(self._phases[line.name])
        self.weights.check()
        return {name: values[name] for name in wanted}

    def _needed(self, wanted: frozenset[str]) -> frozenset[str]:
        """The lines from which these follow, themselves too."""
        if wanted not in self._chains:
            needed = set(wanted)
            for line in reversed(self.lines):
                if line.name in needed:
                    needed.update(source.root for source in line.sources.values())
            self._chains[wanted] = frozenset(needed)
        return self._chains[wanted]

    def __call__(self, root: Any, /) -> Any:
        """The last line's value for the engine's: a step's context, a batch, tensors."""
        values, mark = {self._root: root}, self.profile.mark
        self.weights.check()
        for line in self.lines[: len(self._drafting)]:
            values[line.name] = root = line.node.run(**line.inputs(values))
            mark(self._phases[line.name])
        for node in self._preparing:
            node.prepare(root)
        if self._preparing:
            mark("begin")
        for line in self.lines[len(self._drafting) :]:
            routing = self._routing.get(line.name)
            before_s = 0.0 if routing is None else routing.experts_s
            values[line.name] = line.node.run(**line.inputs(values))
            if routing is not None:
                self._mark_experts(routing.experts_s - before_s)
            mark(self._phases[line.name])
        self.weights.check()
        return values[self.lines[-1].name]

    def _mark_experts(self, seconds: float) -> None:
        """The time of a step's routed experts, where it is known, is a phase of its own."""
        if seconds > 0:
            self.profile.mark_part(EXPERTS, seconds)

    @property
    def num_draft_tokens(self) -> int:
        """Most draft tokens per sequence and step, from one speculation node; 0 without any."""
        return max((node.num_draft_tokens for node in self._drafting), default=0)

    @property
    def sessions(self) -> list[DecoderSession]:
        """The decoders, in order; each has its own cache behind the same block table."""
        return [line.node.session for line in self.lines if isinstance(line.node, HasDecoder)]

    @property
    def encoders(self) -> list[EncoderSession]:
        """The encoders, in order."""
        return [line.node.encoder for line in self.lines if isinstance(line.node, HasEncoder)]

    @property
    def opened(self) -> dict[str, dict[str, str]]:
        """How the model of each line is run that opens one."""
        return {line.name: dict(line.node.opened) for line in self.lines if isinstance(line.node, OpensModel)}

    @property
    def guides(self) -> Guiding | None:
        """The line that restricts outputs, if the body has one."""
        return next((line.node for line in self.lines if isinstance(line.node, Guiding)), None)

    def warm(self) -> bool:
        """Prepare a part of what later runs will use, while none runs; whether more is left."""
        return any(session.warm() for session in self.sessions) or any(
            encoder.warm() for encoder in self.encoders
        )

    def seed_cost(self) -> None:
        """Every session is warm: let the lines read what idle steps took."""
        for line in self.lines:
            if isinstance(line.node, MeasuresSteps):
                line.node.seed_cost()

    def close(self) -> None:
        for line in self.lines:
            line.node.close()
        self.weights.close()


def _phase(line: str) -> str:
    """The name of a line's phase in profiles; phases of the engine have no prefix."""
    return f"body.{line}"
