"""The figures of a soak as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table

from tools.lab.soak.figures import kind_figures, memory_slope
from tools.lab.soak.processes import Sample
from tools.lab.soak.sending import Outcome


def kinds_table(outcomes: Sequence[Outcome], title: str = "requests") -> Table:
    table = _table(title, "kind", "requests", "errors", "p50 s", "p99 s", "worst s")
    for kind, one in kind_figures(outcomes).items():
        seconds = [f"{each:.2f}" for each in (one.p50_s, one.p99_s, one.worst_s)]
        table.add_row(kind, f"{one.requests:,}", str(one.errors), *seconds)
    return table


def processes_table(samples: Sequence[Sample]) -> Table:
    """Each process at the start, in the middle and at the end."""
    columns = ("process", "RSS MB", "PSS MB", "KB per 1,000 requests", "descriptors", "threads")
    table = _table("processes: start, middle, end", *columns)
    shown = [samples[0], samples[len(samples) // 2], samples[-1]]
    for process in samples[-1].usage:
        slope = memory_slope(samples, process)
        rows = [sample.usage[process] for sample in shown]
        table.add_row(
            process,
            _three(row.rss_kb / 1024 for row in rows),
            _three(row.pss_kb / 1024 for row in rows),
            f"{slope.middle_kb:+.0f} ({slope.least_kb:+.0f} to {slope.most_kb:+.0f})",
            _three(row.descriptors for row in rows),
            _three(row.threads for row in rows),
        )
    return table


def answers_table(answers: Mapping[str, Counter[str]]) -> Table:
    """How often the attacks of each kind were answered with which status."""
    table = _table("attacks", "kind", "answers")
    for kind, statuses in answers.items():
        table.add_row(kind, ", ".join(f"{count} × {status}" for status, count in statuses.most_common()))
    return table


def progress_line(num_done: int, num_errors: int, count: int, sample: Sample) -> str:
    """Memory of the engine host and workers so far."""
    memory = ", ".join(
        f"{name} {usage.rss_kb / 1024:.0f} MB" for name, usage in sample.usage.items() if name != "master"
    )
    return f"{sample.seconds:6.0f} s  {num_done:7,} of {count:,}  errors {num_errors}  {memory}"


def _three(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.0f}" for value in values)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table
