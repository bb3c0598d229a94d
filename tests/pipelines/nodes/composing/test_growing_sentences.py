"""A text that grows, cut into what is spoken at once, however it comes."""

import random

import pytest
from every_case import every_case
from patience import least_cpu_s

from pipelines.nodes.composing.growing_sentences import GrowingSentences, spoken

CUTS = {
    "Dr. Who met J. R. R. Tolkien, e.g. in 1937. Well.": [
        "Dr. Who met J. R. R. Tolkien, e.g. in 1937.",
        " Well.",
    ],
    "It costs 3.5 euros! Really?!\n\nYes.": ["It costs 3.5 euros!", " Really?!", "\n\nYes."],
    "1. First.\n2. Second.": ["1. First.", "\n2. Second."],
    'He said "Go." Then left.': ['He said "Go."', " Then left."],
    "Hello there. How are you?": ["Hello there.", " How are you?"],
    "我很好。你呢？": ["我很好。", "你呢？"],
}
"""A text and its parts."""


def parts(pieces, longest=300):
    text = GrowingSentences(longest)
    return [part for piece in pieces for part in text.push(piece)] + text.rest()


@every_case("text", CUTS)
def test_sentences(text):
    found = parts([text])
    assert found == CUTS[text]
    for seed in range(20):
        cuts = sorted(random.Random(seed).choices(range(len(text) + 1), k=4))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert parts(pieces) == found
    assert parts(list(text)) == found


@pytest.mark.parametrize("text", ["x" * 1990 + " ", "." * 1990, "." * 900 + "]" * 1000])
def test_a_long_part_is_not_read_again_from_each_of_its_characters(text):
    sentences = GrowingSentences(2000)
    sentences.push(text)
    assert least_cpu_s(lambda: [sentences.push("") for _ in range(100)], 0.2) < 0.2


def test_what_has_no_end_is_cut():
    text = "word " * 100 + "last, and more " + "x" * 90
    found = parts([text], longest=60)
    assert "".join(found) == text
    assert max(map(len, found)) <= 60
    assert all(part.endswith(" ") for part in found[:8])


@every_case(
    ("text", "said"),
    [
        ("**Bold** and `code`.", "Bold and code."),
        ("- A [link](http://x/y) here", "A link here"),
        ("2. Second", "Second"),
        ("### Title", "Title"),
        ("a_name", "a name"),
        ("---", ""),
        (" 😀 ", ""),
    ],
)
def test_marks_are_not_spoken(text, said):
    assert spoken(text) == said
