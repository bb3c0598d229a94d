"""The speech part of the benchmark: what it asks, what it makes of the answers, and word errors."""

from __future__ import annotations

import wave
from types import SimpleNamespace

import numpy as np
import pytest

from tools.lab.bench.base.systems import SystemFailed
from tools.lab.bench.speech.clips import seconds_of, write_wav
from tools.lab.bench.speech.load import Load, Timings, read_samples, run_library
from tools.lab.bench.speech.measuring import SpeechWorkload, measure
from tools.lab.bench.speech.systems import BRAID
from tools.lab.bench.speech.words import count_errors, words_of

NOBODY = 2**22 + 1
"""No process has this number."""


class Hearing:
    """A system that takes so long for each clip, and hears the same in all of them."""

    def __init__(self, clip_s, text="one two", broken=False):
        self.clip_s, self.text, self.broken = clip_s, text, broken
        self.process = SimpleNamespace(pid=NOBODY)

    def take(self, load):
        if self.broken:
            raise SystemFailed("no")
        return Timings(self.clip_s * len(load.clips), [self.text] * len(load.clips))


def test_rows_are_real_time_factors_and_ratios_to_braid():
    systems = {
        BRAID: Hearing(0.5),
        "slow": Hearing(1.0, "one, three"),
        "broken": Hearing(1.0, broken=True),
    }
    clips = [(f"{number}.wav", 10.0) for number in range(4)]
    rows = measure(systems, {"some": SpeechWorkload(2, 1)}, clips, rounds=2, note=lambda text: None)
    assert [row["system"] for row in rows] == [BRAID, "slow"]
    assert [row["real_time_factor"] for row in rows] == pytest.approx([0.05, 0.1])
    assert [row["ratio"] for row in rows] == pytest.approx([1, 2])
    assert [row["other_words"] for row in rows] == pytest.approx([0, 50])


def test_a_library_gets_as_many_clips_as_are_in_flight():
    asked = []

    def transcribe(clips):
        asked.append(clips)
        return [clip.upper() for clip in clips]

    assert run_library(Load(list("abcde"), 2), transcribe).texts == list("ABCDE")
    assert asked == [["a", "b"], ["c", "d"], ["e"]]


def test_clips_are_files_of_16_bits(tmp_path):
    write_wav(tmp_path / "a.wav", np.array([0, 1, -1, 2], np.float32))
    assert np.frombuffer(read_samples(str(tmp_path / "a.wav")), np.int16).tolist() == [
        0,
        32767,
        -32767,
        32767,
    ]
    assert seconds_of(tmp_path / "a.wav") == 4 / 16_000
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert (file.getnchannels(), file.getframerate()) == (1, 16_000)


@pytest.mark.parametrize(
    ("wanted", "found", "errors"),
    [
        ("It was the best.", "it was THE best", 0),
        ("one two three", "one three", 1),
        ("one two", "one two three four", 2),
        ("one two three", "one four three", 1),
        ("don’t", "don't", 0),
        ("", "a b", 2),
    ],
)
def test_word_errors(wanted, found, errors):
    assert count_errors(words_of(wanted), words_of(found)) == errors
