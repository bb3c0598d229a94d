"""The examples of the Python API, run as they are shown: in docstrings, docs/python.md and README.md."""

from __future__ import annotations

import doctest

import pytest
from documents import ROOT, all_blocks

from pipelines import Local
from pipelines.local import local

SHOWN = [
    block
    for block in all_blocks()
    if block.language == "python" and "from pipelines import Local" in block.text
]
PAGE = [block for block in all_blocks() if block.language == "python" and block.page.name == "python.md"]


@pytest.fixture(scope="module")
def demo():
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(ROOT)
        with Local("model_repo") as braid:
            yield braid


EXAMPLES = [each for each in doctest.DocTestFinder().find(local) if each.examples]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name.rpartition(".")[2])
def test_an_example_gives_what_it_shows(example, demo):
    example.globs["braid"] = demo
    assert doctest.DocTestRunner().run(example).failed == 0


def test_the_page_runs_from_its_top_to_its_end(demo, capsys):
    names = {}
    for block in PAGE:
        exec(compile(block.text, str(block), "exec"), names)
    shown = capsys.readouterr().out
    for text in ("get_weather", "braid-embed", "positive", "did you mean `temperature`?"):
        assert text in shown


@pytest.mark.parametrize("block", [each for each in SHOWN if each not in PAGE], ids=str)
def test_other_pages_show_what_runs(block, demo):
    exec(compile(block.text, str(block), "exec"), {})
