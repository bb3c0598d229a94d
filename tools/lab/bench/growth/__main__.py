"""`python -m tools.lab.bench.growth`: measures how cost grows with load, and draws `docs/growth.svg`.

Each part writes `docs/growth/PART.json`; the drawing has all of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from tools.lab.bench import adapters
from tools.lab.bench.growth import generation, models
from tools.lab.bench.growth.drawing import draw
from tools.lab.bench.model import NAMES, Model
from tools.lab.bench.report import Row

BUILD = Path("build")
FIGURES, DRAWING = Path("docs/growth"), Path("docs/growth.svg")
PARTS = ("streams", "prompts", "models", "adapters")
SWEEPS = {"streams": ("streams", generation.STREAMS), "prompts": ("prompt", generation.PROMPTS)}
"""Part → the name of its rows, and its points."""
NUM_ADAPTERS = (0, 1, 2, 4, 8)


@click.command()
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), default=PARTS)
@click.option("--model", "name", type=click.Choice(NAMES), default=NAMES[0], show_default=True)
@click.option("--size", "sizes", multiple=True, type=int, help="Of streams or prompts: these points alone.")
@click.option("--rounds", default=2, show_default=True, help="How often each point is measured.")
def main(parts: tuple[str, ...], name: str, sizes: tuple[int, ...], rounds: int) -> None:
    """Measure and draw."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    for part in parts:
        rows, file = measure(part, name, sizes, rounds), FIGURES / f"{part}.json"
        if sizes and file.exists():
            rows = joined(json.loads(file.read_text()), rows)
        file.write_text(json.dumps(rows, indent=2) + "\n")
    known = [json.loads(path.read_text()) for path in sorted(FIGURES.glob("*.json"))]
    draw([row for rows in known for row in rows], DRAWING)


def joined(known: list[Row], new: list[Row]) -> list[Row]:
    """The rows of both; of the same point and system the new one."""
    rows = {(row["workload"], row["system"]): row for row in (*known, *new)}
    return list(rows.values())


def measure(part: str, name: str, sizes: tuple[int, ...], rounds: int) -> list[Row]:
    """The rows of one part: `workload` is its sweep and size, `system` its curve."""
    if sizes and part not in SWEEPS:
        raise click.UsageError(f"--size is for {' and '.join(SWEEPS)}; say which with --part.")
    if part == "models":
        return models.measure(BUILD / "growth", rounds, click.echo)
    model = Model.within(BUILD / "bench", name, click.echo)
    if part == "adapters":
        rows = adapters.measure(model, numbers=NUM_ADAPTERS, rounds=rounds)
        return [{**row, "workload": f"adapters {row['adapters']}", "system": row["workload"]} for row in rows]
    sweep, points = SWEEPS[part]
    return generation.measure(sweep, points.only(sizes), model, BUILD / "bench" / "venvs", rounds, click.echo)


if __name__ == "__main__":
    main()
