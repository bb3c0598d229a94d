"""`braid top`: what a running server does, in a terminal."""

from __future__ import annotations

import contextlib
import sys

import click
from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.text import Text

from tools.client.http_client import RequestFailed
from tools.client.options import server_at, server_options
from tools.top.keys import QUIT, STEPS, pressed, single_keys
from tools.top.screen import screen
from tools.top.watcher import Watcher, read_status

REDRAW_S = 0.5
KEYS = "q: end   Tab, arrows: another model"


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@server_options
@click.option("--model", help="Shown in detail; the default model unless given.")
@click.option("--once", is_flag=True, help="Print once and end, as without a terminal.")
def main(url: str, key: str | None, model: str | None, once: bool) -> None:
    """Show models, requests in flight, cache blocks, node times and errors of a running Braid.

    Needs no key where requests need none.  q ends, Tab and the arrows choose the model.
    """
    server = server_at(url, key)
    if once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        console = Console(highlight=False)
        try:
            status = read_status(server, model)
        except RequestFailed as error:
            raise click.ClickException(str(error)) from error
        console.print(screen(status, url, len(status["requests"]) + 1000))
        return
    watcher = Watcher(server, model)
    with contextlib.suppress(KeyboardInterrupt):
        _watch(watcher, url)
    watcher.end()


def _watch(watcher: Watcher, url: str) -> None:
    console = Console(highlight=False)
    with single_keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        key = ""
        while key not in QUIT:
            live.update(_with_keys(_shown(watcher, url, console.height)), refresh=True)
            key = pressed(REDRAW_S)
            if key in STEPS:
                watcher.choose(STEPS[key])


def _shown(watcher: Watcher, url: str, height: int) -> RenderableType:
    problem = Text(watcher.problem, "bold red")
    if watcher.status is None:
        return problem if watcher.problem else Text(f"waiting for {url}")
    parts = [problem] if watcher.problem else []
    return Group(*parts, screen(watcher.status, url, height))


def _with_keys(body: RenderableType) -> Layout:
    """What is shown, cut off above the last line of the terminal, which says which keys there are."""
    layout = Layout()
    layout.split_column(Layout(body), Layout(Text(KEYS, "dim"), size=1))
    return layout


if __name__ == "__main__":
    main(prog_name="braid top")
