"""`python -m tools.lab.bench.lookup MODEL`: what a lookup line costs and saves, in turns with none.

One model is opened once, in this process, without a server, for two engines: the body of its graph with a
lookup line and without one.  Both generate each chat, some steps of the one and some of the other in turns;
with `--control` so does a third, without the line, whose ratios show what chance makes of 1.  In short turns
chance makes less of it; in long ones all engines pay for their own changes of shape alone.  A chat model gets
chats of five kinds (`chats.yaml`), any other the chains of the benchmark's own model.  Prints tokens/s of
each kind, prompts included, medians of the rounds, and the ratios of clock and of processor time.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tools.lab.bench.lookup.chats import FREE, Chat, chats_of
from tools.lab.bench.lookup.sides import CONTROL, LOOKUP, PLAIN, Sides, Spent

HEAD = (
    f"{'':12}  {'tokens/s':>17}  {'ratio':>6}  {'lowest':>6}  {'highest':>7}  {'processor':>9}  "
    f"{'tokens/step':>11}  accepted"
)


@click.command()
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.option("--rounds", default=10, show_default=True)
@click.option("--kind", "kinds", multiple=True, help="Default: all.")
@click.option("--streams", default=1, show_default=True, help="Chats that are generated side by side.")
@click.option("--settings", default="", help="Of the lookup line, as in `num_draft_tokens: 8`.")
@click.option("--model-settings", default="", help="Of the model line, as in `precision: f32`.")
@click.option("--temperature", default=0.0, show_default=True)
@click.option("--turn", default=4, show_default=True, help="Steps that an engine computes in turn.")
@click.option("--control", is_flag=True, help="Measure the graph without the line against itself, too.")
def main(
    model: Path,
    rounds: int,
    kinds: tuple[str, ...],
    streams: int,
    settings: str,
    model_settings: str,
    temperature: float,
    turn: int,
    control: bool,
) -> None:
    sides = Sides(model, settings, model_settings, turn, control)
    taken: dict[str, list[dict[str, Spent]]] = {}
    for number in range(-1, rounds):  # the first is not counted: first uses take longer
        chats = chats_of(sides.model.path, sides.tokenizer, sides.vocab_size, 100 + number)
        for kind in kinds or chats:
            sampling = {"temperature": 1.0 if kind == FREE else temperature, "seed": number + 2}
            spent = _spent(sides, chats[kind], streams, sampling)
            if number >= 0:
                taken.setdefault(kind, []).append(spent)
                ratios = "  ".join(f"{name} {ratio(spent, name):.3f}" for name in spent if name != PLAIN)
                click.echo(f"round {number + 1}: {kind}  {ratios}", err=True)
    click.echo(HEAD)
    for kind, of_rounds in taken.items():
        click.echo(row(kind, of_rounds, LOOKUP))
        if control:
            click.echo(row("  control", of_rounds, CONTROL))
        if differ := sum(spent_in[PLAIN].texts != spent_in[LOOKUP].texts for spent_in in of_rounds):
            click.echo(f"    another text in {differ} of {len(of_rounds)} rounds")


def _spent(sides: Sides, chats: list[Chat], streams: int, sampling: dict[str, Any]) -> dict[str, Spent]:
    spent = {name: Spent() for name in sides.engines}
    for at in range(0, len(chats), streams):
        for name, one in sides.run(chats[at : at + streams], **sampling).items():
            spent[name].add(one)
    return spent


def ratio(
    spent: dict[str, Spent], name: str, of: Callable[[Spent], float] = lambda one: one.seconds
) -> float:
    """Tokens per second of an engine divided by those without the line."""
    measured, without = spent[name], spent[PLAIN]
    return (measured.tokens / of(measured)) / (without.tokens / of(without))


def row(kind: str, rounds: list[dict[str, Spent]], name: str) -> str:
    ratios = [ratio(spent, name) for spent in rounds]
    plain, drafting = (
        statistics.median(spent[side].tokens / spent[side].seconds for spent in rounds)
        for side in (PLAIN, name)
    )
    processor = statistics.median(ratio(spent, name, lambda side: side.processor_s) for spent in rounds)
    total = Spent()
    for spent in rounds:
        total.add(spent[name])
    per_step = total.tokens / total.steps
    return (
        f"{kind:12}  {plain:7.1f} → {drafting:7.1f}  {statistics.median(ratios):6.3f}  {min(ratios):6.3f}  "
        f"{max(ratios):7.3f}  {processor:9.3f}  {per_step:11.2f}  {total.accepted} of {total.drafted}"
    )


if __name__ == "__main__":
    main()
