"""`python -m tools.lab.simulate`: what many engines would give for many sessions, by how turns are routed.

The scheduler, the cache and the policy are those of the engine; only the model is left out, and a clock says
how long each step takes: as `tools.lab.profile_step --json` measured it, with few streams and with many.

    python -m tools.lab.profile_step --load 1 --json one.json
    python -m tools.lab.profile_step --load 16 --json many.json
    python -m tools.lab.simulate --profile one.json --profile many.json --engines 1 --engines 8

`--replay URL` sends the same sessions to a server instead, to hold the simulation against it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tools.lab.simulate.engine import EngineSize
from tools.lab.simulate.outcome import Outcome
from tools.lab.simulate.replay import CLIENTS, replayed
from tools.lab.simulate.routes import ROUTES
from tools.lab.simulate.simulation import Simulation
from tools.lab.simulate.step_cost import StepCost, fitted, measured_steps
from tools.lab.simulate.trace import TraceSettings, sessions_of

COLUMNS = ("engines", "route", "tokens/s", "first token p50", "p99", "found in a cache", "busy")


@click.command()
@click.option("--engines", multiple=True, type=int, default=(1, 2, 8), show_default=True)
@click.option("--route", "routes", multiple=True, type=click.Choice(list(ROUTES)), default=tuple(ROUTES))
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A file of profile_step --json; several give the line of a step's time.",
)
@click.option("--step-ms", default=20.0, show_default=True, help="Without --profile: a step of no token.")
@click.option("--token-ms", default=0.5, show_default=True, help="Without --profile: each token of a step.")
@click.option("--around-ms", default=0.0, show_default=True, help="A request's time outside of engines.")
@click.option("--blocks", default=2048, show_default=True, help="Blocks of 16 tokens in each engine's cache.")
@click.option("--max-sequences", default=32, show_default=True)
@click.option("--max-step-tokens", default=512, show_default=True)
@click.option("--sessions", default=32, show_default=True, help="For each engine.")
@click.option(
    "--rate", default=0.5, show_default=True, help="Sessions that begin in a second, for each engine."
)
@click.option("--systems", default=8, show_default=True, help="System prompts, for each engine.")
@click.option("--system-tokens", default=512, show_default=True)
@click.option("--turns", default=5, show_default=True)
@click.option("--user-tokens", default=64, show_default=True)
@click.option("--reply-tokens", default=96, show_default=True)
@click.option("--pause-s", default=5.0, show_default=True, help="Between a reply and the next turn.")
@click.option("--vocab-size", default=2000, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--replay", help="URL of a server; its first model, or --model, replies.")
@click.option("--model")
def main(
    engines: tuple[int, ...],
    routes: tuple[str, ...],
    profiles: tuple[Path, ...],
    step_ms: float,
    token_ms: float,
    around_ms: float,
    blocks: int,
    max_sequences: int,
    max_step_tokens: int,
    replay: str | None,
    model: str | None,
    **sizes: Any,
) -> None:
    """Print a row for each number of engines and each route."""
    if replay is not None and not {*routes} <= {*CLIENTS}:
        raise click.BadParameter(f"with --replay one of {', '.join(CLIENTS)}", param_hint="--route")
    table = Table(*COLUMNS)
    cost = _cost(profiles, step_ms, token_ms)
    limits = {"max_sequences": max_sequences, "max_step_tokens": max_step_tokens}
    size = EngineSize(blocks, vocab_size=sizes["vocab_size"], **limits)
    for number in engines:
        trace = TraceSettings(**sizes).times(number)
        for name in routes:
            if replay is not None:
                outcome = asyncio.run(replayed(replay, model, sessions_of(trace), name))
            else:
                outcome = Simulation(number, size, cost, ROUTES[name](), around_ms / 1000).run(
                    sessions_of(trace)
                )
            table.add_row(str(number), name, *_figures(outcome))
    console = Console()
    if replay is None:
        console.print(f"a step: {1e3 * cost.step_s:.2f} ms, and {1e3 * cost.token_s:.3f} ms for each token")
    console.print(table)


def _cost(profiles: tuple[Path, ...], step_ms: float, token_ms: float) -> StepCost:
    if not profiles:
        return StepCost(step_ms / 1000, token_ms / 1000)
    try:
        return fitted(step for file in profiles for step in measured_steps(file))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--profile") from error


def _figures(outcome: Outcome) -> list[str]:
    return [
        f"{outcome.tokens_per_s:.1f}",
        *(f"{1e3 * outcome.first_token_s(share):.0f} ms" for share in (0.5, 0.99)),
        f"{100 * outcome.cached_share:.1f} %",
        f"{100 * outcome.busy_share:.0f} %" if outcome.busy_s else "",
    ]


if __name__ == "__main__":
    main()
