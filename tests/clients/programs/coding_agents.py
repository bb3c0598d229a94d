"""Runs one task of a coding agent that is a program of Python, in a new folder and a new home."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TASK = "Create hello.py that prints 42"
SECONDS = 240


def session(address: str, folder: Path, command: Sequence[str], **variables: str) -> str:
    """What the command, one of this environment, printed."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    keys = {"OPENAI_API_BASE": f"{address}/v1", "OPENAI_API_KEY": "none"}
    settings = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb", "COLUMNS": "200"}
    ended = subprocess.run(
        [Path(sys.executable).with_name(command[0]), *command[1:]],
        cwd=work,
        env={**settings, **keys, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
    return ended.stdout
