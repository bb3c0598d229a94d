"""Texts that are too long: which of their tokens stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_nodes import framed_tokenizer

from pipelines.nodes.text.tokenizing.text_reader import cut, cut_text, pair_lengths, parts, text_parts

LENGTHS = st.integers(0, 40)
BYTES = framed_tokenizer()


@given(ids=st.lists(st.integers(0, 9)), most=st.none() | st.integers(0, 12), left=st.booleans())
def test_a_cut_keeps_one_end(ids, most, left):
    kept = cut(ids, most, left)
    assert len(kept) == (len(ids) if most is None else min(most, len(ids)))
    assert kept == (ids[len(ids) - len(kept) :] if left else ids[: len(kept)])


@given(first=LENGTHS, second=LENGTHS, most=LENGTHS)
def test_a_pair_is_cut_as_the_tokenizers_library_cuts_it(first, second, most):
    tokenizer = framed_tokenizer()
    tokenizer.enable_truncation(most + 3, strategy="longest_first")
    slots = tokenizer.encode("a" * first, "b" * second).sequence_ids
    assert pair_lengths(first, second, most) == (slots.count(0), slots.count(1))


@given(ids=st.lists(st.integers(0, 9), max_size=40), size=st.integers(1, 12))
def test_parts_hold_every_token_in_order(ids, size):
    found = parts(ids, size)
    assert [each for part in found for each in part] == ids
    assert all(len(part) <= size for part in found)
    assert all(len(part) == size for part in found[:-1])
    assert found


@given(text=st.text(max_size=12), most=st.integers(1, 12))
def test_a_text_is_cut_where_a_token_ends(text, most):
    kept = cut_text(BYTES, text, most)
    assert text.startswith(kept)
    assert len(BYTES.encode(kept, add_special_tokens=False).ids) <= most


@pytest.mark.parametrize("most", [None, 0])
def test_without_a_limit_a_text_stays(most):
    assert cut_text(BYTES, "abc", most) == "abc"


@given(text=st.text(max_size=20), size=st.none() | st.integers(1, 8))
def test_pieces_joined_are_the_text(text, size):
    found = text_parts(BYTES, text, size)
    assert "".join(found) == text
    assert found
    longest = max(len(BYTES.encode(piece, add_special_tokens=False).ids) for piece in found)
    assert size is None or longest < size + 4
