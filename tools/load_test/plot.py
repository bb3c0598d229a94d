"""A picture of a load test as SVG: output tokens per second over time, and how the times are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

import numpy as np

from tools.load_test.figures import Figures, between, tokens_over_time
from tools.load_test.outcome import Outcome

WIDTH, HEIGHT, LEFT, TOP = 420, 200, 60, 40
GAP = 90
BINS, POINTS = 80, 200
LEAST_MS = 0.1
COLORS = ("#0072b2", "#d55e00", "#009e73")
STYLE = "text{font:12px sans-serif;fill:#333}.axis{stroke:#999}.line{fill:none;stroke-width:1.5}"


def svg(figures: Figures, outcomes: Sequence[Outcome], title: str) -> str:
    good = [outcome for outcome in outcomes if outcome.ok]
    rates = tokens_over_time(outcomes, figures.seconds, BINS)
    middles = [(number + 0.5) * figures.seconds / BINS for number in range(BINS)]
    times = {
        "first token": [outcome.arrivals_s[0] for outcome in good],
        "between tokens": between(good),
        "whole reply": [outcome.end_s for outcome in good],
    }
    over_time = _panel(LEFT, "output tokens/s over seconds", middles, {"": rates})
    second = LEFT + WIDTH + GAP
    lines = {name: _shares(seconds) for name, seconds in times.items() if seconds}
    shares = _logarithmic_panel(second, lines) if lines else ""
    width, height = second + WIDTH + 20, TOP + HEIGHT + 60
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    name = f'<text x="{LEFT}" y="16">{escape(title)}</text>'
    return f"{head}<style>{STYLE}</style>{name}{over_time}{shares}</svg>\n"


def _shares(seconds: Sequence[float]) -> tuple[list[float], list[float]]:
    """Milliseconds, and the percent of times that are not longer."""
    percents = np.linspace(0, 100, POINTS)
    return [float(each) * 1000 for each in np.percentile(seconds, percents)], percents.tolist()


def _panel(left: int, name: str, x: Sequence[float], lines: dict[str, Sequence[float]]) -> str:
    top = max(max(y) for y in lines.values()) or 1.0
    drawn = [
        _line([each / x[-1] for each in x], [each / top for each in y], left, COLORS[0])
        for y in lines.values()
    ]
    ticks = _x_label(left, 0.0, "0") + _x_label(left, 1.0, f"{x[-1]:.1f}")
    return _axes(left, name, f"{top:.0f}") + ticks + "".join(drawn)


def _logarithmic_panel(left: int, lines: dict[str, tuple[list[float], list[float]]]) -> str:
    """Shares over milliseconds, whose axis goes from one power of ten to another."""
    times = np.log10(np.maximum([time_ms for x, _ in lines.values() for time_ms in x], LEAST_MS))
    low, high = int(np.floor(times.min())), int(np.ceil(times.max()))
    high = max(high, low + 1)
    parts = [_axes(left, "% of times below … ms", "100")]
    for power in range(low, high + 1):
        parts.append(_x_label(left, (power - low) / (high - low), f"{10.0**power:g}"))
    for number, (name, (x, y)) in enumerate(lines.items()):
        along = (np.log10(np.maximum(x, LEAST_MS)) - low) / (high - low)
        parts.append(_line(along.tolist(), [share / 100 for share in y], left, COLORS[number]))
        text_y = TOP + HEIGHT + 40
        parts.append(
            f'<text x="{left + number * 130}" y="{text_y}" style="fill:{COLORS[number]}">{name}</text>'
        )
    return "".join(parts)


def _axes(left: int, name: str, top: str) -> str:
    bottom = TOP + HEIGHT
    return (
        f'<text x="{left}" y="{TOP - 8}">{name}</text>'
        f'<path class="axis" fill="none" d="M{left} {TOP}V{bottom}H{left + WIDTH}"/>'
        f'<text x="{left - 6}" y="{TOP + 10}" text-anchor="end">{top}</text>'
        f'<text x="{left - 6}" y="{bottom}" text-anchor="end">0</text>'
    )


def _x_label(left: int, share: float, text: str) -> str:
    return f'<text x="{left + share * WIDTH:.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{text}</text>'


def _line(x: Sequence[float], y: Sequence[float], left: int, color: str) -> str:
    points = " ".join(
        f"{left + across * WIDTH:.1f},{TOP + HEIGHT * (1 - up):.1f}" for across, up in zip(x, y, strict=True)
    )
    return f'<polyline class="line" stroke="{color}" points="{points}"/>'
