import random

import pytest
from counted_text import CountedText

from pipelines.nodes.text.markup.tags import TagScanner, overlap


def scan(pieces, *tags):
    scanner = TagScanner(*tags)
    out = [pair for piece in pieces for pair in scanner.push(piece)]
    return out + list(scanner.push("", final=True))


def test_text_before_a_tag_comes_with_it():
    assert scan(["one<a>two"], "<a>") == [("one", "<a>"), ("two", "")]


def test_the_earliest_of_several_tags_is_taken():
    assert scan(["x<b>y<a>z"], "<a>", "<b>") == [("x", "<b>"), ("y", "<a>"), ("z", "")]


def test_what_may_become_a_tag_is_held_back():
    scanner = TagScanner("<tag>")
    assert list(scanner.push("text<ta")) == [("text", "")]
    assert list(scanner.push("g>more")) == [("", "<tag>"), ("more", "")]


def test_half_a_tag_at_the_end_is_text():
    assert scan(["text<ta"], "<tag>") == [("text", ""), ("<ta", "")]


def test_a_false_start_is_given_back():
    assert "".join(text for text, _ in scan(["a<", "tb"], "<tag>")) == "a<tb"


@pytest.mark.parametrize("at", range(12))
def test_no_split_changes_what_is_found(at):
    text = "one<tag>two<t"
    pieces = scan([text[:at], text[at:]], "<tag>")
    joined = "".join(before + tag for before, tag in pieces)
    assert joined == text
    assert [tag for _, tag in pieces if tag] == ["<tag>"]


@pytest.mark.parametrize(("text", "size"), [("abc", 0), ("ab<", 1), ("<ta", 3), ("<tag>", 0), ("<t<t", 2)])
def test_overlap_is_the_longest_beginning_of_the_tag(text, size):
    assert overlap(text, "<tag>") == size


def test_overlap_is_that_of_a_plain_search():
    rng = random.Random(0)
    for _ in range(3000):
        text, tag = ("".join(rng.choices("ab<", k=rng.randint(least, 12))) for least in (0, 1))
        sizes = [size for size in range(len(tag)) if text.endswith(tag[:size])]
        assert overlap(text, tag) == max(sizes), (text, tag)


@pytest.mark.parametrize("tag", ["a" * 1000 + "z", "ab" + "a" * 1000, "a" * 500 + "b" + "a" * 500])
def test_few_characters_are_read_for_an_overlap(tag):
    CountedText.num_read = 0
    overlap(CountedText("a" * 3000), CountedText(tag))
    assert CountedText.num_read <= 7 * len(tag)
