"""Processor time of a token of several engines, in turns."""

from __future__ import annotations

import random

import pytest

from tools.lab.bench.base.load import Timings
from tools.lab.bench.beside import BRAID, ROUNDING, compared, of_prompt, of_streams, row, token_ms


class Scripted:
    """A system that takes as long as it is told."""

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
    seconds = {BRAID: (9, 1, 2, 4), ROUNDING: (9, 1, 1, 1), "peer": (1, 3, 4, 16)}
    children = {name: Scripted(*((each, 0) for each in of)) for name, of in seconds.items()}
    times = compared(children, loads)
    assert times == {BRAID: [100, 200, 400], ROUNDING: [100, 100, 100], "peer": [300, 400, 1600]}
    assert row("prompt", times) == "| prompt | 200.00 | 100.00 | 400.00 | 3.00 | 4.00 |"
