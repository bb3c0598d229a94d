"""Processor time of a token of several engines, in turns."""

from __future__ import annotations

import random

import pytest

from tools.lab.bench.base.load import Timings
from tools.lab.bench.beside import compared, of_prompt, of_streams, row, token_ms


class Scripted:
    """A contender that takes as long as it is told."""

    process = None

    def __init__(self, *seconds):
        self._seconds = list(seconds)

    def run(self, load):
        return Timings(0.0, [], [], *self._seconds.pop(0))


def test_time_of_a_token_is_that_of_decoded_ones_or_of_the_prompt():
    rng = random.Random(0)
    assert token_ms(Scripted((9.0, 1.6)), of_streams(4, rng)) == pytest.approx(1600 / (4 * 16))
    assert token_ms(Scripted((3.2, 0.0)), of_prompt(64, rng)) == pytest.approx(50)


def test_the_first_round_does_not_count_and_ratios_are_of_neighbours():
    loads = [of_prompt(10, random.Random(0))] * 4
    own, peer = Scripted((9, 0), (1, 0), (2, 0), (4, 0)), Scripted((1, 0), (3, 0), (4, 0), (16, 0))
    times = compared({"braid": own, "peer": peer}, loads)
    assert times == {"braid": [100, 200, 400], "peer": [300, 400, 1600]}
    assert row("prompt", times) == "| prompt | 200.00 | 400.00 | 3.00 |"
