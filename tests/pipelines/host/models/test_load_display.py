"""A load's progress for who started the server: a bar where a terminal is, else lines in the log."""

import io
import logging

from pipelines.host.models import load_display
from pipelines.host.models.load_display import CLEAR, LoadDisplay


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar_that_leaves_nothing_behind():
    terminal = Terminal()
    display = LoadDisplay("qwen3", terminal)
    for share in (0.25, 0.5, 1.0):
        display.show("converting a.gguf", share)
    display.end()
    _, first, second, after = terminal.getvalue().split(CLEAR)
    assert first == f"qwen3: {'█' * 7}{'░' * 23} converting a.gguf, 25 %"
    assert second == f"qwen3: {'█' * 15}{'░' * 15} converting a.gguf, 50 %"
    assert after == ""


def test_a_log_gets_lines(monkeypatch, caplog):
    monkeypatch.setattr(load_display, "LOG_INTERVAL_S", 0.0)
    caplog.set_level(logging.INFO, "braid.host")
    quiet = io.StringIO()
    display = LoadDisplay("qwen3", quiet)
    display.show("converting a.gguf", 0.256)
    display.end()
    assert caplog.messages == ["qwen3: converting a.gguf, 25 %"]
    assert quiet.getvalue() == ""
