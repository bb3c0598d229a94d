"""`python -m tools.bench.growth`: measures how cost grows with load, and draws `docs/growth.svg`.

Tokens/s against streams, time to the first token and between tokens against the prompt's length; Braid and
openvino-genai alternate. Figures also go to `build/growth.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click
import psutil

from tools.bench.lineup import BRAID, Lineup, start
from tools.bench.load import Settings
from tools.bench.measuring import Measuring
from tools.bench.model import NAMES, Model
from tools.bench.report import Row
from tools.bench.workloads import Workload

BUILD = Path("build")
DRAWING = Path("docs/growth.svg")
CONTENDERS = (BRAID, "openvino-genai")
STREAMS = {count: Workload(count, count, output_tokens=32) for count in (1, 2, 4, 8, 16, 32, 64, 128)}
PROMPTS = {
    length: Workload(1, 1, prompt_tokens=length, output_tokens=16)
    for length in (128, 256, 512, 1024, 2048, 4096, 8192)
}
PANELS = (
    ("streams", "tokens_per_s", "streams", "output tokens/s"),
    ("prompt", "first_p50_ms", "prompt tokens", "first token, ms"),
    ("prompt", "gap_p50_ms", "tokens of context", "between tokens, ms"),
)
"""(sweep, field of a row, label of the x axis, label of the y axis)."""
SETTINGS = Settings(num_blocks=768, max_sequences=128, max_context=8192 + 256)


@click.command()
@click.option("--model", "name", type=click.Choice(NAMES), default=NAMES[0], show_default=True)
@click.option("--rounds", default=2, show_default=True, help="How often each point is measured.")
def main(name: str, rounds: int) -> None:
    """Measure and draw."""
    model = Model.within(BUILD / "bench", name, click.echo)
    sweeps = {"streams": STREAMS, "prompt": PROMPTS}
    workloads = {
        f"{sweep} {size}": one
        for sweep, sizes in sweeps.items()
        for size, one in sizes.items()
        if one.context <= model.config["max_position_embeddings"]
    }
    lineup = Lineup()
    settings = replace(SETTINGS, threads=psutil.cpu_count() or 1)
    try:
        start(lineup, CONTENDERS, model, BUILD / "bench" / "venvs", settings, workers=1)
        rows = Measuring(lineup, model.config["vocab_size"], click.echo).run(workloads, rounds)
    finally:
        lineup.stop()
    (BUILD / "growth.json").write_text(json.dumps(rows, indent=2) + "\n")
    draw(rows, DRAWING)


def points(rows: Sequence[Row], sweep: str, field: str) -> Mapping[str, list[tuple[int, float]]]:
    """Contender → (size, figure) pairs of one sweep."""
    made: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        kind, size = str(row["workload"]).split()
        if kind == sweep:
            made.setdefault(str(row["contender"]), []).append((int(size), float(row[field])))
    return made


def draw(rows: Sequence[Row], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(PANELS), figsize=(13, 4), layout="constrained")
    for ax, (sweep, field, below, beside) in zip(axes, PANELS, strict=True):
        for contender, pairs in points(rows, sweep, field).items():
            sizes, values = zip(*pairs, strict=True)
            ax.plot(sizes, values, marker="o", label=contender)
            ax.set_xscale("log", base=2)
            ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.set(xlabel=below, ylabel=beside, ylim=(0, None))
        ax.grid(alpha=0.3)
        ax.legend()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    main()
