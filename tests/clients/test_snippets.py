"""The requests that README.md and docs/ show, sent as they are shown to a real server with the demo models."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import client_programs
import pytest
from breadth import after
from client_programs import COMMON, LIBRARIES
from documents import Block, all_blocks
from patience import PATIENCE_S
from running import Outcome, run_together
from sound_files import sound_file, tone

from pipelines.nodes.audio.decoding import decode_audio

SHOWN_URL = "http://127.0.0.1:8000"
REAL_MODEL, DEMO_MODEL = '"smollm2"', '"braid-demo"'
"""The chat model of `make demo-chat`, which is fetched, and the one that takes its place here."""
OTHER_CLIENTS = {
    re.compile(r"^(import|from) cohere\b", re.MULTILINE): COMMON,
    re.compile(r"^(import|from) (litellm|langchain_openai)\b", re.MULTILINE): LIBRARIES,
}
"""What a snippet imports that the tests' own environment has not → the environment with it."""


RECORDING, LISTENER, VOICE, TRANSLATOR = "speech.mp3", '"whisper"', '"joe"', '"flan-t5"'
ASSISTANT = '"assistant"'
SMALL = re.compile("|".join((RECORDING, LISTENER, VOICE, TRANSLATOR)))
"""What stands in the blocks that are sent to the server of small random models."""
TOO_LARGE = '"voxtral"'
"""The model of blocks that are not run: it has no small form of which the snippets could ask."""
SHOWN = [block for block in all_blocks() if not SMALL.search(block.text)]
PROGRAMS = [block for block in SHOWN if block.language == "python" and SHOWN_URL in block.text]
CURLS = [block for block in SHOWN if block.language == "" and "curl http" in block.text]
VOICED = [block for block in all_blocks() if VOICE in block.text and SHOWN_URL in block.text]
SPOKEN = [block for block in VOICED if ASSISTANT not in block.text]
TALKED = [block for block in VOICED if ASSISTANT in block.text]
HEARD = [
    block
    for block in all_blocks()
    if (RECORDING in block.text or LISTENER in block.text)
    and SHOWN_URL in block.text
    and TOO_LARGE not in block.text
]
TRANSLATED = [block for block in all_blocks() if TRANSLATOR in block.text and SHOWN_URL in block.text]


def python_of(block: Block) -> Path:
    others = (name for imported, name in OTHER_CLIENTS.items() if imported.search(block.text))
    environment = next(others, None)
    return Path(sys.executable) if environment is None else client_programs.python_of(environment)


@pytest.fixture(scope="module")
def ended(demo: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Block], Outcome]:
    """`ended(block)` → its outcome; all blocks for the same Python run in one process."""
    folder, outcomes = tmp_path_factory.mktemp("snippets"), {}
    files = {program: folder / f"{program}.py" for program in PROGRAMS}
    for name, file in files.items():
        file.write_text(name.text.replace(SHOWN_URL, demo))

    def run(block: Block) -> Outcome:
        if files[block] not in outcomes:
            python = python_of(block)
            together = [file for name, file in files.items() if python_of(name) == python]
            outcomes.update(run_together(python, together))
        return outcomes[files[block]]

    return run


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_a_python_snippet_runs(block: Block, ended: Callable[[Block], Outcome]) -> None:
    if not python_of(block).exists():
        pytest.skip("its client is not installed: `make test` and `make clients` install clients")
    outcome = ended(block)
    assert outcome.passed, outcome.errors
    assert outcome.output.strip()


@pytest.mark.parametrize("block", CURLS, ids=str)
def test_a_curl_command_is_answered(block: Block, demo: str) -> None:
    answered(block, demo)


@pytest.mark.breadth
@pytest.mark.parametrize("block", TRANSLATED, ids=str)
def test_a_text_is_translated(block: Block, translator: str) -> None:
    answered(block, translator)


def answered(block: Block, url: str) -> None:
    shown = block.text[block.text.index("curl ") :]
    command = shown.replace(SHOWN_URL, url).replace(REAL_MODEL, DEMO_MODEL)
    run = subprocess.run(
        ["bash", "-c", f"set -e; {command.replace('curl ', 'curl -sSf ')}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert run.returncode == 0, run.stderr
    assert {"model", "model_name"} & json.loads(run.stdout).keys()


@pytest.mark.parametrize("block", after(1, HEARD), ids=str)
def test_a_recording_is_answered(block: Block, speech: str, tmp_path: Path) -> None:
    """The text of a model with random weights may be empty."""
    (tmp_path / RECORDING).write_bytes(sound_file(tone(0.8), "mp3", "libmp3lame"))
    text = block.text.replace(SHOWN_URL, speech)
    shell = ["bash", "-c", text.replace("curl ", "curl -sSf ")]
    command = [sys.executable, "-c", text] if block.language == "python" else shell
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=tmp_path)
    assert run.returncode == 0, run.stderr[-3000:]


@pytest.mark.parametrize("block", after(1, SPOKEN), ids=str)
def test_a_text_is_spoken(block: Block, speech: str, tmp_path: Path) -> None:
    text = block.text.replace(SHOWN_URL, speech)
    shell = ["bash", "-c", text.replace("curl ", "curl -sSf ")]
    command = [sys.executable, "-c", text] if block.language == "python" else shell
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=tmp_path)
    assert run.returncode == 0, run.stderr[-3000:]
    (file,) = tmp_path.glob("hello.*")
    assert len(decode_audio(file.read_bytes())) > 1000


@pytest.mark.parametrize("block", TALKED, ids=str)
def test_an_assistant_answers_what_is_said(block: Block, speech: str) -> None:
    """A model with random weights may hear no speech: the program must come to the response's end."""
    text = block.text.replace(SHOWN_URL, speech)
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=PATIENCE_S)
    assert run.returncode == 0, run.stderr[-3000:]


def test_both_ways_to_let_a_voice_speak_are_shown() -> None:
    assert {block.language for block in SPOKEN} == {"", "python"}


def test_both_ways_to_send_a_recording_are_shown() -> None:
    assert {block.language for block in HEARD} == {"", "python"}


def test_the_readme_shows_both() -> None:
    assert {"README.md"} <= {block.page.name for block in CURLS} & {block.page.name for block in PROGRAMS}
