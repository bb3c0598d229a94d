import pytest

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
