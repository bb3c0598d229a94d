"""aider: a file is made in one run and changed in the next.  The model says what tests/fixtures/agent_scripts.py gives."""

import sys
import tempfile
from pathlib import Path

from cases import run
from coding_agents import TASK, session

(ADDRESS,) = sys.argv[1:]
OPTIONS = [
    "--yes-always",
    "--no-git",
    "--no-show-model-warnings",
    "--no-check-update",
    "--analytics-disable",
    "--no-pretty",
]


def edits() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        session(ADDRESS, home, ["aider", "--model", "openai/aider", *OPTIONS, "--message", TASK])
        assert (home / "work" / "hello.py").read_text() == "print(41)\n"
        change = ["--message", "It must print 42: change it", "hello.py"]
        output = session(ADDRESS, home, ["aider", "--model", "openai/aider", *OPTIONS, *change])
        assert (home / "work" / "hello.py").read_text() == "print(42)\n", output


run([edits])
