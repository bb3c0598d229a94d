"""The process that finds phonemes: what it answers, and that a faulty one harms no other text."""

from __future__ import annotations

import sys

import pytest

import pipelines.nodes.voice.espeak as espeak
from pipelines.base.errors import EngineError
from pipelines.nodes.voice.espeak import Espeak, find_espeak

needs_espeak = pytest.mark.skipif(find_espeak() is None, reason="espeak-ng is not installed")
ECHO = """
import json, os, sys
print("[]", flush=True)
for line in sys.stdin:
    text = json.loads(line)
    if text == "crash":
        os.abort()
    if text == "hang":
        sys.stdin.read()
    print(json.dumps([[text.upper(), text]]) if text != "junk" else "junk", flush=True)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Puts another program in the place of the one that loads espeak-ng."""

    def write(text: str) -> None:
        (tmp_path / "child.py").write_text(text)
        monkeypatch.setattr(espeak, "CHILD", tmp_path / "child.py")
        monkeypatch.setenv(espeak.LIBRARY, "none.so")

    return write


@pytest.mark.parametrize("text", ["crash", "hang", "junk"])
def test_a_text_that_ends_the_process_is_the_only_one_to_fail(program, monkeypatch, text):
    program(ECHO)
    speaker = Espeak("en-us")
    try:
        assert speaker.clauses("héllo\n") == [("HÉLLO\n", "héllo\n")]
        with monkeypatch.context() as patch:
            patch.setattr(espeak, "DEADLINE_S", 0.5 if text == "hang" else 10.0)
            with pytest.raises(EngineError, match="espeak-ng gave no phonemes for this text"):
                speaker.clauses(text)
        assert speaker.clauses("again") == [("AGAIN", "again")]
    finally:
        speaker.close()
    assert speaker._child.poll() is not None


def test_what_the_process_says_when_it_does_not_start(program):
    program('print(\'{"error": "no voice `xx`"}\')')
    with pytest.raises(ValueError, match="no voice `xx`"):
        Espeak("xx")
    program("")
    with pytest.raises(ValueError, match="espeak-ng does not start: its process ended"):
        Espeak("xx")


def test_a_library_that_is_none(monkeypatch):
    monkeypatch.setenv(espeak.LIBRARY, sys.executable)
    with pytest.raises(ValueError, match=sys.executable):
        Espeak("en-us")


@needs_espeak
def test_the_machine_s_own_espeak():
    speaker = Espeak("en-us")
    try:
        clauses = speaker.clauses("Hello, world. Yes")
        assert [read for _, read in clauses] == ["Hello, w", "orld. Y", "es "]
        assert clauses[0][0] == "həlˈoʊ"
    finally:
        speaker.close()
    with pytest.raises(ValueError, match="no voice `qq-qq`"):
        Espeak("qq-qq")
