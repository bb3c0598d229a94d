"""What ran, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from tools.lab.profile_step.difference import KIND_TITLES, Kind, ProfileDifference
from tools.lab.profile_step.operators import Operators

COLUMNS = ("share %", "mean ms", "p50 ms", "p99 ms", "max ms")


def tables(difference: ProfileDifference) -> Iterator[Table]:
    """A table of the nodes in workers, one for each kind of steps, and one for the engine host's thread."""
    if difference.worker:
        yield _worker(difference)
    for kind in difference.kinds:
        yield _steps(kind, difference.seconds)
    yield _host(difference)


def _worker(difference: ProfileDifference) -> Table:
    made = _table(f"{difference.model}: nodes in workers", "", "node", "runs", "mean ms", "% of a processor")
    for row in difference.worker:
        made.add_row(row.node, str(row.runs), f"{row.mean_ms:.3f}", f"{100 * row.share:.2f}")
    return made


def _steps(kind: Kind, seconds: float) -> Table:
    title = f"{kind.engine}: {kind.steps} steps {KIND_TITLES.get(kind.kind, kind.kind)}"
    caption = (
        f"per step: {kind.tokens:.1f} tokens, {kind.sequences:.1f} sequences, "
        f"{kind.output_tokens:.2f} output tokens\n"
        f"{kind.seconds / seconds:.1%} of the time, {kind.output_tokens * kind.steps / seconds:.1f} tokens/s"
    )
    built = _table(title, caption, "phase", "node", *COLUMNS)
    for row in kind.rows:
        numbers = (100 * row.share, row.mean_ms, row.p50_ms, row.p99_ms, row.max_ms)
        built.add_row(row.phase, row.node, f"{numbers[0]:.2f}", *(f"{number:.3f}" for number in numbers[1:]))
    built.add_section()
    built.add_row("step", "", "100.00", f"{1e3 * kind.seconds / kind.steps:.3f}")
    return built


def _host(difference: ProfileDifference) -> Table:
    shares = {name: share for name, share in difference.host.items() if name != "steps"}
    caption = f"{difference.seconds:.1f} s, {difference.output_tokens_per_s:.1f} tokens/s"
    built = _table(f"{difference.model}: the engine host's thread", caption, "phase", "share %")
    for kind in difference.kinds:
        title = f"steps {KIND_TITLES.get(kind.kind, kind.kind)}"
        built.add_row(title, f"{100 * kind.seconds / difference.seconds:.2f}")
    built.add_row("steps of other models", f"{100 * difference.other_steps:.2f}")
    for name, share in shares.items():
        built.add_row(name, f"{100 * share:.2f}")
    return built


def operator_table(operators: Operators) -> Table:
    """The time of a step by operator."""
    size = f"{operators.sequences} sequences with {operators.context} tokens each"
    more = f", {operators.tokens} more of each" if operators.tokens > 1 else ""
    title = f"a step of {size}{more}: {operators.step_ms:.2f} ms"
    caption = f"mean of {operators.steps} steps"
    built = _table(title, caption, "operators", "number", "ms", "share %")
    for row in operators.rows:
        built.add_row(row.what, str(row.number), f"{row.ms:.3f}", f"{100 * row.ms / operators.step_ms:.2f}")
    built.add_section()
    rest = operators.step_ms - operators.counted_ms
    built.add_row("between them", "", f"{rest:.3f}", f"{100 * rest / operators.step_ms:.2f}")
    return built


def _table(title: str, caption: str, *columns: str) -> Table:
    made = Table(title=title, caption=caption)
    for name in columns:
        text = name in ("phase", "node", "operators")
        made.add_column(name, justify="left" if text else "right", no_wrap=True)
    return made
