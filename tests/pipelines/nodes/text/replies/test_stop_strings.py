"""Stop strings are found as a plain search finds them, with a bounded number of steps for each character."""

import random

import pytest
from counted_text import CountedText

from pipelines.nodes.text.replies.detokenize import StopPatterns, StopStrings


class PlainSearch:
    """What `StopStrings` gives, by looking at the whole text that is held."""

    def __init__(self, stops, include):
        self.stops, self.include, self.held = stops, include, ""

    def push(self, text):
        text = self.held + text
        hits = [(at, stop) for stop in self.stops if (at := text.find(stop)) >= 0]
        if hits:
            at, stop = min(hits, key=lambda hit: hit[0])
            self.held = ""
            return text[: at + len(stop) if self.include else at], stop
        keep = max((self._kept(text, stop) for stop in self.stops), default=0)
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep], None

    @staticmethod
    def _kept(text, stop):
        sizes = range(min(len(stop) - 1, len(text)), 0, -1)
        return next((size for size in sizes if text.endswith(stop[:size])), 0)

    def flush(self):
        text, self.held = self.held, ""
        return text


def some_text(rng, letters, longest):
    return "".join(rng.choices(letters, k=rng.randint(1, longest)))


def of_repeats(rng, letters):
    """A text that is several times the same, with perhaps another end: what a search has to go back in."""
    return some_text(rng, letters, 4) * rng.randint(1, 6) + some_text(rng, letters, 3)


@pytest.mark.parametrize("letters", ["ab", "abc", "a\n é🙂"])
def test_texts_end_as_by_a_plain_search(letters):
    rng = random.Random(letters)
    num_stopped = 0
    for _ in range(1500):
        make = rng.choice((some_text, of_repeats))
        size = (8,) if make is some_text else ()
        stops = [make(rng, letters, *size) for _ in range(rng.randint(1, 5))]
        include = rng.random() < 0.5
        patterns = StopPatterns(stops, include)
        choices = [(StopStrings(patterns), PlainSearch(stops, include)) for _ in range(2)]
        for _ in range(rng.randint(1, 25)):
            search, plain = rng.choice(choices)
            piece = "" if rng.random() < 0.1 else some_text(rng, letters, rng.choice((1, 3, 12)))
            expected = plain.push(piece)
            assert search.push(piece) == expected, (stops, piece)
            assert search.held == plain.held
            num_stopped += expected[1] is not None
            if rng.random() < 0.1:
                assert search.flush() == plain.flush()
    assert num_stopped > 500


def worst_texts():
    """Stop strings, and a text whose every character ends many of their beginnings."""
    others = [chr(ord("b") + number) * 1024 for number in range(15)]
    yield ["a" * 1023 + "z", *others], "a" * 3000
    yield ["a" * (1009 + number) + "z" for number in range(15)], "a" * 3000
    yield ["b" + "a" * 1000 + "z"], ("b" + "a" * 1000) * 3
    yield ["a" * 512 + "b" + "a" * 510 + "z"], ("a" * 512 + "b" + "a" * 511) * 3
    yield ["ab" * 511 + "z", "ba" * 511 + "z"], "ab" * 1500
    words = ["a", "ab"]
    while len(words[-1]) < 1000:
        words.append(words[-1] + words[-2])  # Fibonacci's words, in which a search goes back most often
    yield [f"{words[-1]}z", f"{words[-2]}z"], (words[-2][:-2] + "c" + words[-1]) * 3


@pytest.mark.parametrize("size", [1, 7])
def test_few_characters_of_stop_strings_are_read_for_each_of_the_text(size):
    for stops, text in worst_texts():
        patterns = StopPatterns([CountedText(stop) for stop in stops], include=False)
        choices = [StopStrings(patterns) for _ in range(3)]
        CountedText.num_read = 0
        for at in range(0, len(text), size):
            for choice in choices:
                assert choice.push(text[at : at + size])[1] is None
        num_compared = len(text) * len(stops) * len(choices)
        assert CountedText.num_read <= 6 * num_compared


def test_a_stop_string_costs_nothing_before_it_is_met():
    CountedText.num_read = 0
    stops = [CountedText("b" * 1024)] * 16
    search = StopStrings(StopPatterns(stops, include=False))
    for _ in range(1000):
        search.push("a token")
    assert CountedText.num_read <= len(stops)
