"""Checks of graphs whose models read the outputs of an encoder: the lines must fit each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphs.graph import Binding
from pipelines.inference.engine.batching.batch_engine import BatchEngine
from pipelines.inference.engine.generation_engine import GenerationEngine
from pipelines.inference.engine.interface.engine_contract import Engine
from pipelines.inference.engine.interface.submission_checks import Limits
from pipelines.loading.load import BuildError, problem_of

HOLDING = ("scheduler", "batcher")
"""Node types whose inputs of PORTS stay in the engine host."""
READERS = (*HOLDING, "word_times")
"""Node types that read in the engine host what it holds."""


@dataclass(frozen=True)
class RowPort:
    """An input of a scheduler, or of a batcher, that names a batcher.

    `without`: what is wrong with such a decoder without the input, "" where it is served; `unread`: what is
    wrong with the input at another decoder.
    """

    without: str
    unread: str


PORTS = {
    "context": RowPort(
        "its decoder attends to the rows of an encoder; add `context:` to its inputs, a batcher",
        "its decoder attends to nothing but its own tokens; remove it",
    ),
    "images": RowPort("", "its model reads token ids alone; remove it"),
}


def held_lines(bindings: Sequence[Binding]) -> set[str]:
    """The lines whose outputs stay in the engine host."""
    holding = [line for line in bindings if line.type_name in HOLDING]
    return {line.sources[port].root for line in holding for port in PORTS if port in line.sources}


def check_contexts(engines: Mapping[str, Engine[object]], bindings: Sequence[Binding]) -> None:
    """Raise BuildError for a decoder without the rows that it reads, or with others."""
    for line in bindings:
        sizes = _row_sizes(engines.get(line.name))
        faults = [_fault(port, size, engines, line) for port, size in sizes.items()]
        fault = next(filter(None, faults), None) or _misuse(line, bindings)
        if fault is not None:
            raise BuildError([problem_of(line, ValueError(fault))])


def _row_sizes(engine: Engine[object] | None) -> dict[str, int]:
    """The length of the rows that an engine's model reads at each port, 0 where it reads none."""
    if isinstance(engine, GenerationEngine):
        model = engine.limits.model
        return {"context": model.encoder_hidden_size, "images": model.inputs_embeds_size}
    return {"images": engine.bounds.embeds_size} if isinstance(engine, BatchEngine) else {}


def _fault(port: str, size: int, engines: Mapping[str, Engine[object]], line: Binding) -> str | None:
    rows = PORTS[port]
    if port not in line.sources:
        return (rows.without or None) if size else None
    name = line.sources[port].root
    source = engines.get(name)
    if not isinstance(source, BatchEngine) or not source.per_token:
        return f"{port}: `{name}` must be a batcher whose body gives a row for each token or frame"
    size_given = source.bounds.output_size
    if size == 0:
        return f"{port}: {rows.unread}"
    if size_given != size:
        return f"{port}: `{name}` gives rows of {size_given} numbers, and the model reads rows of {size}"
    reader = engines[line.name]
    return _too_large(reader.limits, source) if isinstance(reader, GenerationEngine) else None


def _too_large(limits: Limits, source: BatchEngine) -> str | None:
    """What is wrong where an image has more tokens than a step takes."""
    if 0 < limits.max_uncut < (longest := source.bounds.max_tokens):
        return (
            f"max_step_tokens: an image has {longest} tokens, which attend to one another and are computed "
            f"in one step; it must be at least {2 * longest + limits.max_sequences}, for "
            f"{limits.max_sequences} sequences"
        )
    return None


def _misuse(line: Binding, bindings: Sequence[Binding]) -> str | None:
    """A batcher whose outputs stay in the host has nothing for other lines."""
    if line.name not in held_lines(bindings):
        return None
    others = [
        binding.name
        for binding in bindings
        for port, source in binding.sources.items()
        if source.root == line.name and not (binding.type_name in READERS and port in PORTS)
    ]
    return f"its rows stay in the engine host, so that `{others[0]}` cannot read them" if others else None
