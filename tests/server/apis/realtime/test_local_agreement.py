"""Words that two readings agree on, the loudness of frames, and the turns that follow from it."""

import numpy as np
import pytest
from realtime_rig import silence, spoken

from server.apis.realtime.local_agreement import num_agreed, words
from server.apis.realtime.loudness import FRAME_SAMPLES, Loudness
from server.apis.realtime.turns import Turn, TurnDetector


@pytest.mark.parametrize(
    ("before", "now", "is_settled", "num"),
    [
        ("", " one two", False, 0),
        (" one two", " one two", False, 1),
        (" one two", " one two", True, 2),
        (" One, two", " one two three", False, 2),
        (" one to", " one two three", False, 1),
        (" one two three", " one", True, 1),
        (" - one", " ... one two", False, 0),
    ],
)
def test_words_are_agreed_on(before, now, is_settled, num):
    assert num_agreed(words(before, "en"), words(now, "en"), is_settled) == num


def test_languages_without_spaces_agree_by_characters():
    assert words(" 你好 吗", "zh") == [" 你", "好", " 吗"]
    assert "".join(words(" so it is ", "en")) == " so it is"


def pcm(data):
    return np.frombuffer(data, np.int16)


def pushed(loudness, samples, size):
    parts = [loudness.push(samples[at : at + size]) for at in range(0, len(samples), size)]
    return [np.concatenate([part[i] for part in parts]) for i in range(2)]


def test_loudness_does_not_depend_on_pieces():
    samples = pcm(silence(0.5) + spoken(5) + silence(1))
    whole = pushed(Loudness(), samples, len(samples))
    for size in (112, 333, 16_000):
        for one, other in zip(whole, pushed(Loudness(), samples, size), strict=True):
            np.testing.assert_allclose(one, other)


def test_steady_noise_is_not_speech():
    noise = np.random.default_rng(0).normal(0, 500, 160_000).astype(np.int16)
    assert not Loudness().push(noise)[1].any()
    assert not Loudness().push(np.zeros(16_000, np.int16))[1].any()


def test_turns_begin_with_the_first_loud_frame_and_end_after_silence():
    samples = pcm(silence(1) + spoken(2.5) + silence(1) + spoken(0.02) + silence(1))
    detector, turns = TurnDetector(0.5, 300, first=1000), []
    for at in range(0, len(samples), 500):
        turns += detector.push(samples[at : at + 500])
    begins, ends = turns
    assert begins == Turn(True, 17_000)
    assert ends.at - 1000 == pytest.approx(3.5 * 16_000 + 0.3 * 16_000, abs=5 * FRAME_SAMPLES)
