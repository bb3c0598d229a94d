"""Tables of a load test, and its output tokens per second over time, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tools.load_test.figures import Figures, Spread, tokens_over_time
from tools.load_test.outcome import Outcome

COLUMNS, ROWS = 60, 6
BLOCKS = " ▁▂▃▄▅▆▇█"
SPREADS = (
    ("first", "first token"),
    ("between", "between tokens"),
    ("per_token", "per further token"),
    ("whole", "whole reply"),
)


def report(found: Figures, outcomes: Sequence[Outcome]) -> RenderableType:
    parts: list[RenderableType] = [_rates(found)]
    if found.succeeded:
        parts += [_times(found), _plot(tokens_over_time(outcomes, found.seconds, COLUMNS), found.seconds)]
    if found.failures:
        parts.append(_failures(found, outcomes))
    return Group(*parts)


def _rates(figures: Figures) -> Table:
    table = Table(title="throughput", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    count = max(1, figures.succeeded)
    rows = {
        "requests that succeeded": str(figures.succeeded),
        "seconds": f"{figures.seconds:.2f}",
        "requests/s": f"{figures.requests_per_s:.2f}",
        "output tokens/s": f"{figures.output_tokens_per_s:.1f}",
        "prompt tokens/s": f"{figures.prompt_tokens_per_s:.1f}",
        "all tokens/s": f"{figures.tokens_per_s:.1f}",
        "prompt tokens, mean": f"{figures.prompt_tokens / count:.1f}",
        "output tokens, mean": f"{figures.output_tokens / count:.1f}",
        "most requests in flight": str(figures.most_in_flight),
    }
    for row in rows.items():
        table.add_row(*row)
    return table


def _times(figures: Figures) -> Table:
    table = Table(title="times in ms", title_justify="left")
    table.add_column("")
    for name in ("mean", "p50", "p90", "p99", "max"):
        table.add_column(name, justify="right")
    for field, name in SPREADS:
        spread: Spread | None = getattr(figures, field)
        if spread is not None:
            times = (spread.mean_ms, spread.p50_ms, spread.p90_ms, spread.p99_ms, spread.max_ms)
            table.add_row(
                name, *(f"{time_ms:.1f}" if time_ms >= 10 else f"{time_ms:.2f}" for time_ms in times)
            )
    return table


def _plot(rates: Sequence[float], seconds: float) -> Text:
    """A bar for each part of the time, in eighths of a character."""
    top = max(*rates, 1e-9)
    eighths = [round(rate / top * ROWS * 8) for rate in rates]
    text = Text("output tokens/s over time\n", "italic")
    for row in reversed(range(ROWS)):
        label = f"{top:8.0f} " if row == ROWS - 1 else f"{0:8d} " if row == 0 else " " * 9
        bars = "".join(BLOCKS[min(8, max(0, each - row * 8))] for each in eighths)
        text.append(label, "dim").append(bars + "\n", "cyan")
    return text.append(f"{'0 s':>12}{seconds:{COLUMNS - 5}.1f} s", "dim")


def _failures(found: Figures, outcomes: Sequence[Outcome]) -> Table:
    table = Table(title="failures", title_justify="left", title_style="red")
    table.add_column("kind")
    table.add_column("requests", justify="right")
    table.add_column("the first one")
    for kind, count in found.failures.items():
        first = next(each for each in outcomes if each.failure == kind)
        table.add_row(Text(kind), str(count), Text(first.message[:200]))
    return table
