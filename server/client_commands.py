"""Commands that use a running server: each is a program of `tools` that takes the place of `braid`."""

from __future__ import annotations

import os
import sys

import click

RUN_MODULE = (sys.executable, "-P", "-m")
"""How a module of ours is run.  `-P`: a folder `tools` where the user is must not shadow ours."""
PROGRAMS = {
    "agent": ("tools.agents", "Print the configuration of a coding agent for a running server."),
    "bench": ("tools.load_test", "Measure how fast a server answers many requests."),
    "chat": ("tools.chat", "Talk to a served model from the terminal."),
    "top": ("tools.top", "Show what a running server does, in a terminal."),
}
"""Command → the module that is run, and what its line in the help says."""
AS_THEY_ARE = {"ignore_unknown_options": True, "help_option_names": []}


def client_command(name: str) -> click.Command:
    """A command that passes its arguments on; the program's own --help shows its options."""
    module, line = PROGRAMS[name]

    def become(arguments: tuple[str, ...]) -> None:
        sys.stdout.flush()
        os.execv(sys.executable, [*RUN_MODULE, module, *arguments])

    arguments = click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]…")
    return click.Command(name, AS_THEY_ARE, become, [arguments], help=line)
