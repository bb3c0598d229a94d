"""The live step graph of one engine node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphs.graph import Binding
from pipelines.nodes.generation.body.grammar import Grammar
from pipelines.nodes.generation.body.speculator import Speculator
from pipelines.nodes.line import Line
from pipelines.telemetry.step_profile import StepProfile

if TYPE_CHECKING:
    from pipelines.host.backends.decoder_contract import DecoderSession
    from pipelines.host.backends.encoder_contract import EncoderSession


class Body:
    """The live step graph of one engine node: called once per step, straight down its lines."""

    def __init__(self, folder: Path, engine: Binding, lines: list[Line]) -> None:
        self.folder = folder
        self.bindings = engine.body
        self.lines = lines
        self._root = engine.type.body.root  # type: ignore[union-attr]  # the checker saw that it has one
        self._early = [line.node for line in lines if hasattr(line.node, "begin")]
        self._speculators = [
            line.node for line in lines if isinstance(line.node, Speculator)
        ]  # the first lines
        self._phases = {line.name: _phase(line.name) for line in engine.body}
        self.profile = StepProfile({self._phases[line.name]: line.type_name for line in engine.body})

    def __call__(self, root: Any) -> Any:
        """The last line's value for what the engine gives: a step, or a batch."""
        values, mark = {self._root: root}, self.profile.mark
        for line in self.lines[: len(self._speculators)]:
            values[line.name] = root = line.node.run(**line.inputs(values))  # type: ignore[attr-defined]
            mark(self._phases[line.name])
        for node in self._early:
            node.begin(root)  # type: ignore[attr-defined]  # what its threads may do while others compute
        if self._early:
            mark("begin")
        for line in self.lines[len(self._speculators) :]:
            values[line.name] = line.node.run(**line.inputs(values))  # type: ignore[attr-defined]
            mark(self._phases[line.name])
        return values[self.lines[-1].name]

    @property
    def num_draft_tokens(self) -> int:
        """Tokens that a speculation node, one in each step, may put behind each sequence; 0 where there is
        none.
        """
        return max((node.num_draft_tokens for node in self._speculators), default=0)

    @property
    def sessions(self) -> list[DecoderSession]:
        """The decoders of the body, in order; each has its own cache behind the same block table."""
        return [line.node.session for line in self.lines if hasattr(line.node, "session")]

    @property
    def encoders(self) -> list[EncoderSession]:
        """The encoders of the body, in order."""
        return [line.node.encoder for line in self.lines if hasattr(line.node, "encoder")]

    @property
    def guides(self) -> Grammar | None:
        """The line that keeps outputs to what they may be, if there is one."""
        return next((line.node for line in self.lines if isinstance(line.node, Grammar)), None)

    def warm(self) -> bool:
        """Prepare something that later runs will want, while none runs; whether there is more of it."""
        return any(session.warm() for session in (*self.sessions, *self.encoders))

    def seed_cost(self) -> None:
        """Every session is warm: a line that wants to know what its steps take may ask."""
        for line in self.lines:
            if hasattr(line.node, "seed_cost"):
                line.node.seed_cost()

    def close(self) -> None:
        for line in self.lines:
            line.node.close()


def _phase(line: str) -> str:
    """What a line of a body is called in profiles: the engine's own phases are plain words."""
    return f"body.{line}"
