"""Where two texts part, and whether that is a near tie."""

from tools.lab.greedy_texts import ALIKE, NEAR, Text, compare


def text(ids, shift=0.0, margin=1.0):
    return Text(ids, [-0.5 + shift] * len(ids), [margin] * len(ids))


def test_equal_texts():
    found = compare(text([1, 2, 3]), text([1, 2, 3], ALIKE / 2))
    assert (found.equal, found.margin, found.is_near) == (3, None, True)


def test_a_near_tie_ends_the_comparison():
    found = compare(text([1, 2, 3], margin=NEAR / 2), text([1, 4, 3], margin=NEAR / 2))
    assert (found.equal, found.margin, found.is_near) == (1, NEAR / 2, True)


def test_a_clear_choice_that_differs_is_no_tie():
    assert not compare(text([1, 2], margin=2 * NEAR), text([1, 4])).is_near


def test_log_probabilities_of_equal_tokens_count():
    assert not compare(text([1, 2]), text([1, 2], 2 * ALIKE)).is_near
