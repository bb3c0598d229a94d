"""`python -m tools.lab.profile_step`: where the time of a running model's steps goes, by phase and node.

    python -m tools.lab.profile_step [--url URL] [--model NAME] [--seconds 5] [--load STREAMS]
    python -m tools.lab.profile_step --nodes FOLDER [--load SEQUENCES] [--context 128] [--tokens 1]

The first reads a server's profile twice and shows the difference; with --load it sends streams itself.  The
second compiles the model of a graph with the device's counters enabled and shows a step by operator.
"""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from graphs.errors import GraphError
from tools.client.api_server import ApiServer
from tools.client.http_client import RequestFailed
from tools.client.options import server_at
from tools.lab.profile_step.difference import Profile, profile_difference
from tools.lab.profile_step.server_load import profile_of, streams
from tools.lab.profile_step.tables import operator_table, tables

WIDTH = 110


@click.command()
@click.option("--url", default="http://127.0.0.1:8000", show_default=True)
@click.option("--key", envvar="BRAID_API_KEY", help="API key; BRAID_API_KEY in the environment.")
@click.option("--model", help="Default: the only model.")
@click.option("--seconds", default=5.0, show_default=True, help="Time between the two profiles.")
@click.option(
    "--load", "num_streams", default=0, help="Number of streams to send; with --nodes: of sequences."
)
@click.option("--words", default=32, show_default=True, help="Words of each stream's prompt.")
@click.option(
    "--json", "file", type=click.Path(path_type=Path), help="Also write the two profiles to this file."
)
@click.option("--nodes", "folder", type=click.Path(exists=True, path_type=Path), help="A model's folder.")
@click.option("--context", default=128, show_default=True, help="With --nodes: tokens of each sequence.")
@click.option(
    "--tokens",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="With --nodes: of each sequence in a step.",
)
def main(
    url: str,
    key: str | None,
    model: str | None,
    seconds: float,
    num_streams: int,
    words: int,
    file: Path | None,
    folder: Path | None,
    context: int,
    tokens: int,
) -> None:
    """Show how a model spends the time of its steps."""
    console = Console(width=max(WIDTH, Console().width))
    if folder is not None:
        from tools.lab.profile_step.nodes import NoDecoder, count, open_counted

        try:
            steps = count(open_counted(folder), num_streams or 1, context, seconds, tokens)
            console.print(operator_table(steps))
        except (NoDecoder, GraphError) as error:
            raise click.ClickException(str(error)) from error
        return
    try:
        profiles = _profiles(server_at(url, key), model, seconds, num_streams, words)
    except RequestFailed as error:
        raise click.ClickException(str(error)) from error
    if file is not None:
        file.write_text(json.dumps(profiles, indent=2) + "\n")
    _show(console, *profiles)


def _profiles(
    server: ApiServer, model: str | None, seconds: float, num_streams: int, words: int
) -> list[Profile]:
    """The profiles before and after `seconds`."""
    name = model or _only_model(server)
    with streams(server, name, num_streams, words) if num_streams else nullcontext():
        before, begin_s = profile_of(server, name), time.monotonic()
        time.sleep(seconds)
        return [before, profile_of(server, name, time.monotonic() - begin_s)]


def _only_model(server: ApiServer) -> str:
    names = server.model_names()
    if len(names) != 1:
        raise RequestFailed(f"--model is required; models that are ready: {', '.join(names) or 'none'}")
    return names[0]


def _show(console: Console, before: Any, after: Any) -> None:
    difference = profile_difference(before, after)
    for table in tables(difference):
        console.print(table)
    if not difference.kinds:
        console.print("no step ran between the two profiles; --load 8 sends eight streams")


if __name__ == "__main__":
    main()
