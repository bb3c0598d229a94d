"""The parsers of a template are looked for once, in a process of its own with bounded time and memory."""

from __future__ import annotations

import json
import sys

import pytest

from pipelines.base.bounded_processes import BoundedProcess
from pipelines.repository.exports import template_parsers
from pipelines.repository.exports.template_parsers import TemplateParsers, find_parsers

SAYS = "{% for m in messages %}{{ m.content }}{% endfor %}"
THINKS = SAYS + "{% if add_generation_prompt %}<think>{% endif %}"
FOREVER = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
DOUBLES = (
    "{% set x = namespace(a='a') %}{% for i in range(60) %}{% set x.a = x.a ~ x.a %}{% endfor %}{{ x.a }}"
)


@pytest.fixture
def searches(tmp_path, monkeypatch):
    """The processes that a test starts, with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    started = []

    class Counted(BoundedProcess):
        def __init__(self, *arguments):
            started.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(template_parsers, "BoundedProcess", Counted)
    find_parsers.cache_clear()
    yield started
    find_parsers.cache_clear()


def test_a_template_is_rendered_once_for_all_starts(searches):
    assert find_parsers(THINKS) == TemplateParsers({"reasoning": "qwen3"})
    find_parsers(THINKS)
    find_parsers.cache_clear()
    assert find_parsers(THINKS) == TemplateParsers({"reasoning": "qwen3"})
    assert len(searches) == 1


def test_a_damaged_entry_is_found_again(searches, tmp_path):
    find_parsers(THINKS)
    (entry,) = (tmp_path / "cache" / "braid" / "parsers").iterdir()
    for text in ("", '{"notes": 3}'):
        entry.write_text(text)
        find_parsers.cache_clear()
        assert find_parsers(THINKS).settings == {"reasoning": "qwen3"}
        assert json.loads(entry.read_text())["reasoning"] == "qwen3"


def test_a_cache_that_cannot_be_written_is_not_used(searches, tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert find_parsers(THINKS).settings == {"reasoning": "qwen3"}


def test_a_template_that_does_not_end_is_stopped(searches, monkeypatch):
    monkeypatch.setattr(template_parsers, "MAX_S", 1.0)
    found = find_parsers(FOREVER)
    assert found.settings == {}
    assert "longer than 1 s" in found.notes[0]
    find_parsers.cache_clear()
    assert find_parsers(FOREVER) == found
    assert len(searches) == 1  # the next search would take as long


def test_a_template_that_takes_all_memory_gets_none(searches, monkeypatch):
    monkeypatch.setattr(template_parsers, "MAX_MEMORY_BYTES", 320 << 20)
    monkeypatch.setattr(template_parsers, "MAX_S", 2.0)
    found = find_parsers(DOUBLES)
    assert found.settings == {}
    assert len(found.notes) == 1


def test_a_template_of_lone_surrogates_is_no_fault(searches):
    assert find_parsers(SAYS + "\ud83d").settings == {}


def test_where_no_process_can_be_started_the_note_says_so(searches, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/none/python")
    found = find_parsers(THINKS)
    assert found.settings == {}
    assert "no parser was looked for" in found.notes[0]
