"""The measurement of a lookup line, on a model of few tokens: both engines write the same, one by drafts too."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from documents import ROOT

from tools.lab.bench.lookup.__main__ import main, ratio
from tools.lab.bench.lookup.sides import LOOKUP, PLAIN, Spent


def test_a_ratio_is_of_tokens_in_a_second():
    spent = {PLAIN: Spent(seconds=2.0, tokens=10), LOOKUP: Spent(seconds=1.0, tokens=10)}
    assert ratio(spent, LOOKUP) == 2


@pytest.mark.slow
def test_a_kind_of_chats_in_one_round():
    options = ["--rounds", "1", "--kind", "json", "--settings", "adaptive: false"]
    run = CliRunner().invoke(main, [str(ROOT / "model_repo/braid-demo"), *options])
    assert run.exit_code == 0, run.output
    row = next(line for line in run.output.splitlines() if line.startswith("json  "))
    accepted, drafted = (int(word) for word in (row.split()[-3], row.split()[-1]))
    assert 0 < accepted <= drafted
    assert "another text" not in run.output
