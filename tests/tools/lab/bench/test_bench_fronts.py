"""The comparison of a server with what stands in front of it."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from tools.lab.bench import fronts


def test_a_row_has_medians_and_what_a_round_took_more():
    one, two = (fronts.Front.__new__(fronts.Front) for _ in range(2))
    one.name, two.name = "direct", "proxy"
    one.measured, two.measured = {"short": [10.0, 30.0, 20.0]}, {"short": [11.0, 33.0, 22.0]}
    assert fronts.row(one, one) == ["direct", "20.0 ms"]
    assert fronts.row(two, one) == ["proxy", "22.0 ms (+2.0)"]


def test_an_address_needs_a_name():
    done = CliRunner().invoke(fronts.main, ["http://127.0.0.1:8000"])
    assert done.exit_code == 2
    assert "an address is NAME=http://HOST:PORT" in done.output


@pytest.mark.breadth
def test_a_server_is_compared_with_itself(demo):
    options = ["--rounds", "2", "--tokens", "8", "--model", "braid-demo"]
    done = CliRunner().invoke(fronts.main, [f"a={demo.url}", f"b={demo.url}", *options])
    assert done.exit_code == 0, done.output
    (row,) = (line for line in done.output.splitlines() if re.match(r"│ b ", line))
    assert len(re.findall(r"[\d.]+ ms \([+-][\d.]+\)", row)) == 4, row
