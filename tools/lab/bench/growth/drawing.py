"""Draws how cost grows: a panel for each figure, a curve for each system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.lab.bench.report import Row


class Panel(NamedTuple):
    """The figure `field` of the rows of `sweep`, against their size."""

    sweep: str
    field: str
    below: str
    beside: str
    log_y: bool = False


PANELS = (
    Panel("streams", "tokens_per_s", "streams", "output tokens/s"),
    Panel("prompt", "first_p50_ms", "prompt tokens", "first token, ms", log_y=True),
    Panel("prompt", "gap_p50_ms", "tokens of context", "between tokens, ms"),
    Panel("models", "tokens_per_s", "models, 20 streams", "output tokens/s"),
    Panel("models", "host_mb", "models", "engine host, MB"),
    Panel("adapters", "ratio", "adapters in a step", "time / without room"),
)
COLUMNS = 3


def _size(row: Row) -> int:
    return int(str(row["workload"]).split()[1])


def points(rows: Sequence[Row], sweep: str, field: str) -> Mapping[str, list[tuple[int, float]]]:
    """System → (size, figure) pairs of one sweep, by size."""
    made: dict[str, list[tuple[int, float]]] = {}
    for row in sorted(rows, key=_size):
        kind, size = str(row["workload"]).split()
        if kind == sweep:
            made.setdefault(str(row["system"]), []).append((int(size), float(row[field])))
    return made


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write the panels of the sweeps that `rows` have, as SVG.  Needs matplotlib."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    measured = [panel for panel in PANELS if points(rows, panel.sweep, panel.field)]
    lines = -(-len(measured) // COLUMNS)
    figure, axes = pyplot.subplots(
        lines, COLUMNS, figsize=(13, 4 * lines), layout="constrained", squeeze=False
    )
    for ax in axes.flat[len(measured) :]:
        ax.set_visible(False)
    for ax, panel in zip(axes.flat, measured, strict=False):
        for system, pairs in points(rows, panel.sweep, panel.field).items():
            sizes, values = zip(*pairs, strict=True)
            ax.plot(sizes, values, marker="o", label=system)
            ax.set_xscale("symlog" if 0 in sizes else "log", base=2)
            ax.set_xticks(sizes, [_short(size) for size in sizes])
        if panel.log_y:
            ax.set_yscale("log")
        else:
            ax.set_ylim(0, None)
        ax.set(xlabel=panel.below, ylabel=panel.beside)
        ax.grid(alpha=0.3)
        ax.legend()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _short(size: int) -> str:
    return f"{size // 1024}k" if size >= 1024 else str(size)
