"""`braid top` as a process, with a real server of the shipped models."""

from __future__ import annotations

import pytest
from paced_model import write_model
from server_process import ServerProcess
from terminal_program import TerminalProgram, run_inside, run_piped

CHOSEN = "▶"


def test_once_prints_and_ends(demo):
    done = run_piped("top", "--once", "--url", demo.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{CHOSEN}  braid-demo" in done.stdout
    assert "generated.logits" in done.stdout


def test_another_model_is_shown_on_demand(demo):
    done = run_inside("top", "--model", "braid-embed", "--url", demo.url)
    assert f"{CHOSEN}  braid-embed" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "nope"), "404: The model `nope` does not exist"),
        (("--url", "http://127.0.0.1:1"), "no reply of http://127.0.0.1:1/v1"),
    ],
)
def test_what_cannot_be_shown_is_said(demo, arguments, message):
    done = run_inside("top", "--url", demo.url, *arguments)
    assert done.returncode == 1
    assert message in done.stderr


def test_keys_choose_the_model_and_end(demo):
    with TerminalProgram("top", "--url", demo.url) as program:
        program.until(f"{CHOSEN}")
        program.type("q: end", "\t")
        program.type("encoder", "\x1b[A")  # a node of braid-embed
        program.type("chat_template", "q")
        assert program.ended() == 0


@pytest.mark.breadth
def test_a_server_that_goes_away_is_shown_and_comes_back(tmp_path):
    write_model(tmp_path / "models" / "fake")
    with ServerProcess(tmp_path / "models") as server:
        server.ready()
        with TerminalProgram("top", "--url", server.url) as program:
            program.until("scheduler")
            server.host().kill()
            program.until("down")
            server.ready()
            program.until("ready")
            server.process.terminate()
            program.until("no reply of")
            program.interrupt()
            assert program.ended() == 0


@pytest.mark.breadth
def test_a_server_without_a_status_is_named(tmp_path):
    write_model(tmp_path / "models" / "fake")
    with ServerProcess(tmp_path / "models", STATUS="0") as server:
        server.ready()
        done = run_piped("top", "--url", server.url)
    assert done.returncode == 1
    assert "gives no status: it is no Braid, or BRAID_STATUS is 0" in done.stderr
