"""Starts the server in the place of the command that was called."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def become_gunicorn(environment: Mapping[str, str], options: tuple[str, ...]) -> None:
    """Replace this process by gunicorn, so that signals reach it directly."""
    config = Path(__file__).with_name("gunicorn_conf.py")
    command = [sys.executable, "-m", "gunicorn", "-c", str(config), *options]
    sys.stdout.flush()
    os.execve(sys.executable, command, {**os.environ, **environment})
