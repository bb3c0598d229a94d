"""`braid chat [MODEL]`: talks to a served model from a terminal, or answers what comes through a pipe."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import click

from tools.chat.conversation import Conversation
from tools.chat.display import Plain, Terminal
from tools.chat.session import Session
from tools.client.http_client import RequestFailed
from tools.client.options import fields_of, fields_option, server_at, server_options


@click.command(context_settings={"max_content_width": 100})
@click.argument("model", required=False)
@server_options
@click.option("--system", help="System prompt.")
@click.option(
    "--tools", "tools_file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="JSON list of tools; the results of calls are asked for.",
)  # fmt: skip
@click.option("--temperature", type=float)
@click.option("--top-p", type=float)
@click.option("--top-k", type=int)
@click.option("--min-p", type=float)
@click.option("--max-tokens", type=int)
@click.option("--seed", type=int)
@click.option("--stop", multiple=True, help="Ends the reply; may be repeated.")
@click.option("--frequency-penalty", type=float)
@click.option("--presence-penalty", type=float)
@click.option("--repetition-penalty", type=float)
@click.option("--reasoning-effort", metavar="low|medium|high")
@fields_option
@click.option("--stats", is_flag=True, help="Show tokens and tokens/s after each reply.")
def main(
    model: str | None,
    url: str,
    key: str | None,
    system: str | None,
    tools_file: Path | None,
    others: tuple[str, ...],
    stats: bool,
    **sampling: Any,
) -> None:
    """Talk to MODEL, or to the first model of the server, of any server with OpenAI's API.

    Without a terminal as input, the whole input is one message:  echo "Hello" | braid chat
    """
    server = server_at(url, key)
    fields = {name: value for name, value in sampling.items() if value not in (None, ())}
    fields |= fields_of(others)
    tools = _tools(tools_file) if tools_file else ()
    try:
        conversation = Conversation(model or server.model_names()[0], system, tools, fields)
    except RequestFailed as error:
        raise click.ClickException(str(error)) from error
    session = Session(server, conversation, Terminal() if sys.stdout.isatty() else Plain(), stats)
    if not sys.stdin.isatty():
        sys.exit(0 if session.turn(sys.stdin.read()) else 1)
    with contextlib.suppress(ImportError):  # lines that are typed can be edited, where Python has it
        import readline  # noqa: F401
    session.run()


def _tools(file: Path) -> list[Any]:
    try:
        tools = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise click.UsageError(f"--tools: {file} is not JSON: {error}") from error
    tools = tools if isinstance(tools, list) else [tools]
    return [each if "function" in each else {"type": "function", "function": each} for each in tools]


if __name__ == "__main__":
    main(prog_name="braid chat")
