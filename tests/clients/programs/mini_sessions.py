"""mini-swe-agent: commands make a file, change it and run it.  The model says what tests/fixtures/agent_scripts.py gives."""

import sys
import tempfile
from pathlib import Path

from cases import run
from coding_agents import TASK, session

(ADDRESS,) = sys.argv[1:]
VARIABLES = {"MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors", "MSWEA_SILENT_STARTUP": "1"}


def edits() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = ["mini", "-t", TASK, "-y", "-m", "openai/mini", "--exit-immediately"]
        output = session(ADDRESS, Path(folder), command, **VARIABLES)
        assert (Path(folder) / "work" / "hello.py").read_text() == "print(42)\n", output


run([edits])
