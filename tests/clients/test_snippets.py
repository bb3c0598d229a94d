"""The requests that README.md and docs/ show, sent as they are shown to a real server with the demo models."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CLIENTS = Path(os.environ.get("CLIENTS_PYTHON", ROOT / ".venv-clients" / "bin" / "python"))
SHOWN_URL = "http://127.0.0.1:8000"
OTHER_CLIENTS = re.compile(r"^(import|from) (cohere|litellm|langchain_openai)\b", re.MULTILINE)


def fenced(language: str, wanted: str) -> list[object]:
    """Blocks of a language that hold `wanted`, as test parameters."""
    return [
        pytest.param(block, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, block in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL))
        if wanted in block
    ]


CURLS = fenced("", "curl http")
PROGRAMS = fenced("python", SHOWN_URL)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_python_snippet_runs(program: str, demo: str) -> None:
    python = CLIENTS if OTHER_CLIENTS.search(program) else Path(sys.executable)
    if not python.exists():
        pytest.skip("the clients are not installed: `make test` installs them")
    run = subprocess.run(
        [python, "-c", program.replace(SHOWN_URL, demo)], capture_output=True, text=True, timeout=180
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.strip()


@pytest.mark.parametrize("commands", CURLS)
def test_a_curl_command_is_answered(commands: str, demo: str) -> None:
    command = commands[commands.index("curl") :].replace(SHOWN_URL, demo)
    run = subprocess.run(
        ["bash", "-c", f"set -e; {command.replace('curl ', 'curl -sSf ')}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["model"]


def test_the_readme_shows_both() -> None:
    assert any("README" in str(each.id) for each in CURLS)
    assert any("README" in str(each.id) for each in PROGRAMS)
