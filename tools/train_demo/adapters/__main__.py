"""The command line: `python -m tools.train_demo.adapters NAME …` trains and evaluates adapters."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from ..generation import ADAPTERS, HOME
from .lessons import LESSONS

if TYPE_CHECKING:
    from .evaluate import Figure


@click.command(context_settings={"show_default": True})
@click.argument("names", type=click.Choice(list(LESSONS)), nargs=-1, required=True)
@click.option("--model", type=click.Path(path_type=Path), default=HOME / "model", help="The exported base.")
@click.option("--out", type=click.Path(path_type=Path), default=ADAPTERS, help="The folder of adapters.")
@click.option("--steps", type=int, help="Updates; default: what the adapter needs.")
@click.option("--evaluate", "do_evaluate", is_flag=True, help="Only ask the held-out questions.")
@click.option("--show-wrong", is_flag=True, help="Print the wrong replies too.")
def main(
    names: tuple[str, ...], model: Path, out: Path, steps: int | None, do_evaluate: bool, show_wrong: bool
) -> None:
    """Trains adapters of the demo model and asks them, and the model itself, the held-out questions."""
    console = Console()
    if not do_evaluate:
        from .training import train  # imports torch

        for name in names:
            for line in train(LESSONS[name], model, out / name, steps):
                console.print(f"{name}, {line}")
    from .evaluate import measure

    with TemporaryDirectory() as folder:
        for name, figures in measure(names, model, Path(folder), out).items():
            console.print(_table(name, figures))
            for asked, reply in (pair for figure in figures for pair in figure.wrong if show_wrong):
                console.print(asked, reply, sep=" ⟶ ", markup=False, highlight=False)


def _table(name: str, figures: list[Figure]) -> Table:
    table = Table("held-out questions", "the adapter", "the model itself", "asked", title=name)
    for figure in figures:
        table.add_row(figure.what, str(figure.num_right), str(figure.num_right_base), str(figure.num_asked))
    return table


if __name__ == "__main__":
    main()
