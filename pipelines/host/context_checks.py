"""Checks of graphs whose decoders attend to the outputs of an encoder: the lines must fit each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphs.graph import Binding
from pipelines.host.engine.batching.batch_engine import BatchEngine
from pipelines.host.engine.engine_contract import Engine
from pipelines.host.engine.generation_engine import GenerationEngine
from pipelines.loading import BuildError, problem_of

PORT = "context"
"""The input of a scheduler that names the batcher."""


def held_lines(bindings: Sequence[Binding]) -> set[str]:
    """The lines whose outputs stay in the engine host."""
    return {line.sources[PORT].root for line in bindings if PORT in line.sources}


def check_contexts(engines: Mapping[str, Engine[object]], bindings: Sequence[Binding]) -> None:
    """Raise BuildError for a decoder without the frames it attends to, or with others."""
    for line in bindings:
        engine = engines.get(line.name)
        if isinstance(engine, GenerationEngine):
            fault = _fault(engine, engines, line)
        else:
            fault = _misuse(line, bindings)
        if fault is not None:
            raise BuildError([problem_of(line, ValueError(fault))])


def _fault(engine: GenerationEngine, engines: Mapping[str, Engine[object]], line: Binding) -> str | None:
    size = engine.limits.frame_size
    if PORT not in line.sources:
        advice = f"its decoder attends to the rows of an encoder; add `{PORT}:` to its inputs, a batcher"
        return advice if size else None
    name = line.sources[PORT].root
    source = engines.get(name)
    if not isinstance(source, BatchEngine) or not source.per_token:
        return f"{PORT}: `{name}` must be a batcher whose body gives a row for each token or frame"
    given = source.bounds.output_size
    if size == 0:
        return f"{PORT}: its decoder attends to nothing but its own tokens; remove it"
    if given != size:
        return f"{PORT}: `{name}` gives rows of {given} numbers, and the decoder attends to rows of {size}"
    return None


def _misuse(line: Binding, bindings: Sequence[Binding]) -> str | None:
    """A batcher whose outputs stay in the host has nothing for other lines."""
    if line.name not in held_lines(bindings):
        return None
    others = [
        each.name
        for each in bindings
        for port, source in each.sources.items()
        if source.root == line.name and port != PORT
    ]
    return f"its rows stay in the engine host, so that `{others[0]}` cannot read them" if others else None
