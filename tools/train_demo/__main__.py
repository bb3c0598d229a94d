"""The command line: `python -m tools.train_demo` trains, `--export` and `--evaluate` do the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from .evaluate import Score

REPOSITORY = Path(__file__).resolve().parents[2]
TRAINED = REPOSITORY / "build" / "braid-demo"
EXPORTED = REPOSITORY / "model_repo" / "braid-demo" / "model"


@click.command(context_settings={"show_default": True})
@click.option("--out", type=click.Path(path_type=Path), default=TRAINED, help="Of the trained model.")
@click.option("--model", type=click.Path(path_type=Path), default=EXPORTED, help="Of the exported model.")
@click.option("--start-from", type=click.Path(path_type=Path), help="A trained folder to go on from.")
@click.option("--steps", default=8000, help="Updates at most.")
@click.option("--minutes", default=60.0, help="Minutes of training at most.")
@click.option("--conversations", default=60_000, help="Conversations of the corpus.")
@click.option("--rate", default=2.5e-3, help="The learning rate at its peak.")
@click.option("--processes", default=2, help="Processes of one thread, one for each core to be used.")
@click.option("--batch-tokens", default=1536, help="Tokens of a step in each process.")
@click.option("--compile", "compiled", is_flag=True, help="Compile the layers; needs a C++ compiler.")
@click.option("--seed", default=1, help="Seed of the corpus and of the weights.")
@click.option("--export", "do_export", is_flag=True, help="Only export what stands in --out to --model.")
@click.option("--evaluate", "do_evaluate", is_flag=True, help="Only ask --model the held-out questions.")
@click.option("--write-held-out", is_flag=True, help="Only write the held-out questions anew.")
@click.option("--show-wrong", is_flag=True, help="With --evaluate: print the wrong replies.")
def main(
    out: Path,
    model: Path,
    start_from: Path | None,
    steps: int,
    minutes: float,
    conversations: int,
    rate: float,
    processes: int,
    batch_tokens: int,
    compiled: bool,
    seed: int,
    do_export: bool,
    do_evaluate: bool,
    write_held_out: bool,
    show_wrong: bool,
) -> None:
    """Trains the demo model, exports it and asks it the held-out questions."""
    everything = not (do_export or do_evaluate or write_held_out)
    if write_held_out:
        _write_held_out()
    if everything:
        from .train import Plan, train  # imports torch, as the two below do

        size = Plan(steps, minutes, seed, conversations, batch_tokens, processes)
        plan = replace(size, start_from=start_from, peak_rate=rate, compiled=compiled)
        train(plan, out)
    if everything or do_export:
        _export(out, model)
    if everything or do_evaluate:
        _evaluate(model, show_wrong)


def _write_held_out() -> None:
    from .corpus import HELD_OUT_SEED, held_out
    from .evaluate import HELD_OUT_PATH, UNKNOWN_WORDS_PATH, save_questions

    save_questions(held_out(HELD_OUT_SEED, known_words=True), HELD_OUT_PATH)
    save_questions(held_out(HELD_OUT_SEED), UNKNOWN_WORDS_PATH)


def _export(out: Path, model: Path) -> None:
    from .export import export

    export(out, model)


def _evaluate(model: Path, show_wrong: bool) -> None:
    from .evaluate import HELD_OUT_PATH, UNKNOWN_WORDS_PATH, load_questions, measure
    from .generation import Exported

    console = Console()
    with TemporaryDirectory() as folder, Exported(model, Path(folder)) as exported:
        for title, path in {"new phrasings": HELD_OUT_PATH, "new words too": UNKNOWN_WORDS_PATH}.items():
            scores = measure(load_questions(path), exported.ask)
            console.print(_table(title, scores))
            for prompt, reply in (pair for score in scores for pair in score.wrong if show_wrong):
                console.print(prompt, reply, sep="⟶ ", markup=False, highlight=False)


def _table(title: str, scores: list[Score]) -> Table:
    table = Table("skill", "right", "asked", "accuracy", title=title)
    right, asked = sum(score.num_right for score in scores), sum(score.num_asked for score in scores)
    rows = [(score.skill, score.num_right, score.num_asked) for score in scores]
    for skill, num_right, num_asked in [*rows, ("all", right, asked)]:
        table.add_row(skill, str(num_right), str(num_asked), f"{num_right / num_asked:.1%}")
    return table


if __name__ == "__main__":
    main()
