"""What ran, as tables for a terminal.  Knows rows; knows nothing of where they came from."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from tools.profile_step.difference import TITLES, Between, Kind
from tools.profile_step.operators import Operators

COLUMNS = ("share %", "mean ms", "p50 ms", "p99 ms", "max ms")


def tables(told: Between) -> Iterator[Table]:
    """One of each kind of steps, and one of the engine host's thread."""
    for kind in told.kinds:
        yield _steps(kind, told.seconds)
    yield _host(told)


def _steps(kind: Kind, seconds: float) -> Table:
    title = f"{kind.engine}: {kind.steps} steps {TITLES.get(kind.kind, kind.kind)}"
    caption = (
        f"a step: {kind.tokens:.1f} tokens of {kind.sequences:.1f} sequences, {kind.output_tokens:.2f} come\n"
        f"{kind.seconds / seconds:.1%} of the time, {kind.output_tokens * kind.steps / seconds:.1f} tokens/s"
    )
    made = _table(title, caption, "phase", "node", *COLUMNS)
    for row in kind.rows:
        numbers = (100 * row.share, row.mean_ms, row.p50_ms, row.p99_ms, row.max_ms)
        made.add_row(row.phase, row.node, f"{numbers[0]:.2f}", *(f"{one:.3f}" for one in numbers[1:]))
    made.add_section()
    made.add_row("step", "", "100.00", f"{1e3 * kind.seconds / kind.steps:.3f}")
    return made


def _host(told: Between) -> Table:
    shares = {name: share for name, share in told.host.items() if name != "steps"}
    caption = f"{told.seconds:.1f} s, {told.output_tokens_per_s:.1f} tokens/s"
    made = _table(f"{told.model}: the engine host's thread", caption, "phase", "share %")
    for kind in told.kinds:
        title = f"steps {TITLES.get(kind.kind, kind.kind)}"
        made.add_row(title, f"{100 * kind.seconds / told.seconds:.2f}")
    made.add_row("steps of other models", f"{100 * told.other_steps:.2f}")
    for name, share in shares.items():
        made.add_row(name, f"{100 * share:.2f}")
    return made


def operator_table(told: Operators) -> Table:
    """Where a step's time goes inside a model."""
    title = f"a step of {told.sequences} sequences with {told.context} tokens each: {told.step_ms:.2f} ms"
    caption = f"mean of {told.steps} steps"
    made = _table(title, caption, "operators", "number", "ms", "share %")
    for row in told.rows:
        made.add_row(row.what, str(row.number), f"{row.ms:.3f}", f"{100 * row.ms / told.step_ms:.2f}")
    made.add_section()
    rest = told.step_ms - told.counted_ms
    made.add_row("between them", "", f"{rest:.3f}", f"{100 * rest / told.step_ms:.2f}")
    return made


def _table(title: str, caption: str, *columns: str) -> Table:
    made = Table(title=title, caption=caption)
    for name in columns:
        text = name in ("phase", "node", "operators")
        made.add_column(name, justify="left" if text else "right", no_wrap=True)
    return made
