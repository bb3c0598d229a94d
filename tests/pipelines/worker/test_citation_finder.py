"""The passages that a reply names, however its text is split."""

from pipelines.values.search_values import Hit
from pipelines.worker.citation_finder import CitationFinder

PASSAGES = [Hit("a.md", "One", 1.0), Hit("b.md", "Two", 0.5)]
TEXT = "It is so [1]. See [2, 1] and [3], [x], [12345]; x[0] too.[2]"


def found(pieces):
    finder = CitationFinder(PASSAGES)
    return [(each.number, TEXT[each.start : each.end]) for piece in pieces for each in finder.push(piece)]


def test_each_mark_is_found_at_every_split():
    whole = [(1, "[1]"), (2, "[2, 1]"), (1, "[2, 1]"), (2, "[2]")]
    assert found([TEXT]) == found(list(TEXT)) == whole
    for at in range(len(TEXT) + 1):
        assert found([TEXT[:at], TEXT[at:]]) == whole
