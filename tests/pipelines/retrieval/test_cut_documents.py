"""Documents are cut at good places, and each passage stands in the text where it says."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.retrieval import cutting
from pipelines.retrieval.cutting import Cutting, cut
from pipelines.retrieval.html_text import text_of_html

PAGE = """Before any heading.

# Bread

Flour, water, salt.

## Dough

Knead it well. Let it rest for an hour. Then fold it.

```
# no heading in here
```

# Moon

It is far away.
"""


def test_each_heading_begins_a_passage():
    passages = cut(PAGE, Cutting(500))
    assert [passage.heading for passage in passages] == ["", "Bread", "Bread > Dough", "Moon"]
    assert passages[2].text.startswith("## Dough")
    assert passages[2].text.endswith("```")


@given(
    st.text(alphabet="ab c.\n#\u00e9\U0001f600\u3002", max_size=900),
    st.integers(50, 120),
    st.integers(0, 25),
)
def test_passages_are_parts_of_the_text_and_hold_all_of_it(text, size, overlap):
    passages = cut(text, Cutting(size, overlap))
    held = set()
    for passage in passages:
        end = passage.start + len(passage.text)
        assert text[passage.start : end] == passage.text
        assert 0 < len(passage.text) <= size
        held.update(range(passage.start, end))
    missing = {text[i] for i in range(len(text)) if i not in held}
    assert not "".join(missing).strip()


def test_passages_overlap_by_whole_words():
    text = " ".join(f"word{i}" for i in range(60))
    passages = cut(text, Cutting(100, 30))
    for before, after in itertools.pairwise(passages):
        shared = before.start + len(before.text) - after.start
        assert 0 < shared <= 30
        assert text[after.start - 1] == " "


@pytest.mark.parametrize(("size", "overlap"), [(49, 0), (200_000, 0), (100, 51), (100, -1)])
def test_sizes_that_make_no_sense_are_refused(size, overlap):
    with pytest.raises(ValueError, match="passage"):
        Cutting(size, overlap)


def test_the_text_of_a_page_of_html():
    page = "<head><title>x</title></head><h1>A &amp; B</h1><script>no</script><p>One  two<br>three</p><nav>menu</nav><svg>"
    assert text_of_html(page) == "# A & B\n\nOne two\nthree"


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        ("# " + " #" * 300_000 + " x\nbelow", 1),
        ("```\n```\n# a\n" * 30_000, 30_000),
        ("# " + "H" * 100_000 + "\n" + "word " * 100_000, 1),
    ],
    ids=["marks", "fences", "long heading"],
)
def test_a_hostile_document_costs_what_its_length_costs(text, headings):
    passages = cut(text, Cutting())  # in quadratic time each of them takes minutes
    assert len({passage.start for passage in passages if passage.heading}) >= headings
    assert max(len(passage.heading) for passage in passages) <= 200


def test_the_passages_of_a_document_are_bounded(monkeypatch):
    monkeypatch.setattr(cutting, "MAX_PASSAGES", 100)
    assert len(cut("# a\n" * 100, Cutting())) == 100
    with pytest.raises(ValueError, match="more than 100 passages: cut it into several documents"):
        cut("# a\n" * (1 << 20), Cutting())


def test_a_heading_is_read_without_the_marks_that_end_it():
    assert [passage.heading for passage in cut("# A # b ##\n\n# C#\r\n", Cutting())] == ["A # b", "C"]


@pytest.mark.parametrize("piece", ["<!--", "<!", "<a ", "</", "<?", "<a x='", "</a "])
def test_what_never_ends_in_a_page_is_dropped(piece):
    page = "<p>before</p>" + piece * 100_000  # in quadratic time each of them takes minutes
    assert text_of_html(page) == "before"


def test_many_hidden_elements_in_each_other_are_read_at_once():
    assert text_of_html("<p>before</p>" + "<svg>" * 20_000 + "</head>" * 20_000) == "before"
