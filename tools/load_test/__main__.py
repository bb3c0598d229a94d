"""`braid bench URL`: measures how fast a server with OpenAI's API answers many requests."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tools.client.api_server import ApiServer
from tools.client.http_client import RequestFailed
from tools.client.options import fields_of, fields_option, key_option, server_at
from tools.load_test.figures import Figures, figures
from tools.load_test.lengths import Lengths
from tools.load_test.outcome import Outcome
from tools.load_test.plan import Load, PlannedRequest, plan
from tools.load_test.plot import svg
from tools.load_test.prompts import Prompts
from tools.load_test.report import report
from tools.load_test.sending import Sender

STREAMS = 8
FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


class LengthsType(click.ParamType):
    name = "TOKENS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Lengths:
        try:
            return value if isinstance(value, Lengths) else Lengths.read(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("url", envvar="BRAID_URL")
@key_option
@click.option("--model", help="The first of the server, unless given.")
@click.option("--api", type=click.Choice(["chat", "completions"]), default="chat", show_default=True)
@click.option("--requests", type=click.IntRange(1), default=100, show_default=True, help="How many in all.")
@click.option(
    "--streams", type=click.IntRange(1), help=f"Requests in flight at most; {STREAMS} unless --rate is given."
)
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), metavar="PER_S",
    help="Requests come at random times (a Poisson process), this many a second.",
)  # fmt: skip
@click.option(
    "--prompt", type=LengthsType(), default="128", show_default=True,
    help="128, 64-256 (evenly) or 128~32 (mean and deviation).",
)  # fmt: skip
@click.option("--output", type=LengthsType(), default="64", show_default=True, help="The same for replies.")
@click.option("--warmup", type=click.IntRange(0), default=STREAMS, show_default=True, help="Not measured.")
@click.option("--seed", default=0, show_default=True, help="Chooses texts, lengths and times.")
@click.option("--timeout", "timeout_s", default=600.0, show_default=True, help="Seconds for one request.")
@fields_option
@click.option("--json", "json_file", type=FILE, help="Write all figures and requests to this file.")
@click.option("--plot", "plot_file", type=FILE, metavar="FILE.svg", help="Draw a picture.")
def main(
    url: str,
    key: str | None,
    api: str,
    warmup: int,
    timeout_s: float,
    others: tuple[str, ...],
    json_file: Path | None,
    plot_file: Path | None,
    **load_options: Any,
) -> None:
    """Send many streamed requests to the server at URL and show throughput and times.

    Prompts have random words and exact lengths, by the server's /tokenize where it has it.  Replies have the
    length that is wanted where the server honours ignore_eos.  Exits with 1 when a request failed.
    """
    server = server_at(url, key)
    console = Console(stderr=True, highlight=False)
    try:
        load = _load(server, api, {"ignore_eos": True, **fields_of(others)}, load_options)
        load, prompts = _trial(server, load, console)
        planned = plan(load, prompts, load.requests)
        before = plan(dataclasses.replace(load, seed=load.seed + 1, rate=None), prompts, warmup)
    except RequestFailed as error:
        raise click.ClickException(str(error)) from error
    console.print(_title(server, load, prompts.is_exact), markup=False)
    outcomes, seconds = _run(server, load, before, planned, timeout_s)
    measured = figures(outcomes, seconds)
    Console(highlight=False).print(report(measured, outcomes))
    if json_file:
        json_file.write_text(_as_json(server, load, measured, outcomes))
    if plot_file:
        plot_file.write_text(svg(measured, outcomes, _title(server, load, prompts.is_exact)))
    sys.exit(1 if measured.failures else 0)


def _load(server: ApiServer, api: str, fields: dict[str, Any], options: dict[str, Any]) -> Load:
    """Raises RequestFailed."""
    streams = options["streams"] or (None if options["rate"] else STREAMS)
    model = options["model"] or server.model_names()[0]
    return Load(**options | {"model": model, "streams": streams}, is_chat=api == "chat", fields=fields)


def _trial(server: ApiServer, load: Load, console: Console) -> tuple[Load, Prompts]:
    """One request, without ignore_eos where the server refuses that.  Raises RequestFailed."""
    prompts = Prompts(server, load.model, load.is_chat, load.seed)
    try:
        _try(server, load, prompts)
    except RequestFailed as error:
        if "ignore_eos" not in load.fields or error.status not in (400, 422):
            raise
        without = {name: value for name, value in load.fields.items() if name != "ignore_eos"}
        load = dataclasses.replace(load, fields=without)
        _try(server, load, prompts)
        console.print("the server refuses ignore_eos: replies may be shorter than --output")
    return load, prompts


def _try(server: ApiServer, load: Load, prompts: Prompts) -> None:
    (request,) = plan(dataclasses.replace(load, output=Lengths(2, 2)), prompts, 1)
    with server.events(load.path, json.loads(request.body)) as events:
        for _ in events:
            pass


def _title(server: ApiServer, load: Load, is_exact: bool) -> str:
    sent = f"{load.rate:g} requests/s at random times" if load.rate else "one after the other"
    streams = f", at most {load.streams} in flight" if load.streams else ""
    words = "" if is_exact else " (prompts in words: the server has no /tokenize)"
    return f"{load.model} at {server.url}{load.path}: {load.requests} requests, {sent}{streams}{words}"


def _run(
    server: ApiServer,
    load: Load,
    before: Sequence[PlannedRequest],
    planned: Sequence[PlannedRequest],
    timeout_s: float,
) -> tuple[list[Outcome], float]:
    """The outcomes of `planned`, and the seconds that they took; `before` is not measured."""
    outcomes: list[Outcome] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as progress:

        async def run() -> float:
            sender = Sender(server, load.path, timeout_s)
            task = progress.add_task("warm-up", total=len(before))
            await sender.run(before, load.streams or STREAMS, lambda _: progress.advance(task))
            task = progress.add_task("requests", total=len(planned))

            def record(outcome: Outcome) -> None:
                outcomes.append(outcome)
                progress.advance(task)

            try:
                return await sender.run(planned, load.streams, record)
            finally:
                sender.close()

        return outcomes, uvloop.run(run())


def _as_json(server: ApiServer, load: Load, found: Figures, outcomes: Sequence[Outcome]) -> str:
    whole = {
        "url": server.url,
        "load": dataclasses.asdict(load),
        "figures": {**msgspec.to_builtins(found), "tokens_per_s": found.tokens_per_s},
        "requests": [msgspec.to_builtins(each) for each in outcomes],
    }
    return json.dumps(whole, indent=1) + "\n"


if __name__ == "__main__":
    main(prog_name="braid bench")
