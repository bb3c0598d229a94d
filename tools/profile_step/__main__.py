"""`python -m tools.profile_step`: where the time of a running model's steps goes, by phase and node.

    python -m tools.profile_step [--url URL] [--model NAME] [--seconds 5] [--load STREAMS]
    python -m tools.profile_step --nodes FOLDER [--load SEQUENCES] [--context 128]

The first asks a server twice and shows what ran in between; with --load it sends the streams itself.  The
second compiles the model of a graph with the device's counters on and shows a step operator by operator.
"""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tools.profile_step.asking import Refused, Server, streams
from tools.profile_step.difference import Told, between
from tools.profile_step.tables import operator_table, tables

WIDTH = 110


@click.command()
@click.option("--url", default="http://127.0.0.1:8000", show_default=True)
@click.option("--key", envvar="BRAID_API_KEY", help="API key; BRAID_API_KEY in the environment.")
@click.option("--model", help="Default: the only one.")
@click.option("--seconds", default=5.0, show_default=True, help="From the first profile to the second.")
@click.option("--load", "num_streams", default=0, help="Streams to send meanwhile; with --nodes: sequences.")
@click.option("--words", default=32, show_default=True, help="Of the prompt of each such stream.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the two profiles here too.")
@click.option("--nodes", "folder", type=click.Path(exists=True, path_type=Path), help="A model's folder.")
@click.option("--context", default=128, show_default=True, help="With --nodes: tokens of each sequence.")
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
) -> None:
    """Where the time of a model's steps goes."""
    console = Console(width=max(WIDTH, Console().width))
    if folder is not None:
        from tools.profile_step.nodes import NoDecoder, count, open_counted

        try:
            console.print(operator_table(count(open_counted(folder), num_streams or 1, context, seconds)))
        except NoDecoder as error:
            raise click.ClickException(str(error)) from error
        return
    try:
        told = _ask(Server(url, key), model, seconds, num_streams, words)
    except Refused as error:
        raise click.ClickException(str(error)) from error
    if file is not None:
        file.write_text(json.dumps(told, indent=2) + "\n")
    _show(console, *told)


def _ask(server: Server, model: str | None, seconds: float, num_streams: int, words: int) -> list[Told]:
    """The profiles at both ends of the time."""
    name = model or _only(server)
    with streams(server, name, num_streams, words) if num_streams else nullcontext():
        before, begin_s = server.profile(name), time.monotonic()
        time.sleep(seconds)
        return [before, server.profile(name, time.monotonic() - begin_s)]


def _only(server: Server) -> str:
    names = server.models()
    if len(names) != 1:
        raise Refused(f"--model is needed; there are: {', '.join(names) or 'none that is ready'}")
    return names[0]


def _show(console: Console, before: Any, after: Any) -> None:
    told = between(before, after)
    for table in tables(told):
        console.print(table)
    if not told.kinds:
        console.print("nothing ran meanwhile; --load 8 sends eight streams")


if __name__ == "__main__":
    main()
