"""Random numbers against the published vectors of Random123 and against plain integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.random import philox4x32, uniforms

VECTORS = {
    "zeros": ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    "ones": ([2**32 - 1] * 4, [2**32 - 1] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    "pi": (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
}
WORDS64 = st.integers(0, 2**64 - 1)


def plain_philox(counter, key):
    """The rounds of the paper with Python's integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        left, right = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [right >> 32 ^ c[1] ^ k[0], right & 0xFFFFFFFF, left >> 32 ^ c[3] ^ k[1], left & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


@pytest.mark.parametrize("name", VECTORS)
def test_philox_gives_the_published_vector(name):
    counter, key, expected = VECTORS[name]
    assert philox4x32(np.array([counter], np.uint32), np.array([key], np.uint32)).tolist() == [expected]


@given(st.lists(st.tuples(WORDS64, WORDS64), max_size=5))
def test_uniforms_are_the_upper_bits_of_the_first_word(pairs):
    keys, counters = (np.array([pair[i] for pair in pairs], np.uint64) for i in range(2))
    split = lambda number: [number % 2**32, number >> 32]  # noqa: E731
    words = [plain_philox([*split(counter), 0, 0], split(key))[0] for key, counter in pairs]
    found = uniforms(keys, counters)
    assert found.dtype == np.float32
    assert found.tolist() == [(word >> 8) / 2**24 for word in words]


def test_uniforms_lie_in_the_half_open_unit_interval_and_are_even():
    found = uniforms(np.full(60_000, 7, np.uint64), np.arange(60_000, dtype=np.uint64))
    assert found.min() >= 0
    assert found.max() < 1
    tenths = np.bincount((found * 10).astype(int), minlength=10)
    assert ((tenths - 6000) ** 2 / 6000).sum() < 33.7  # chi-square, 9 degrees, p = 0.0001


def test_neighbouring_keys_are_not_alike():
    keys = np.arange(20_000, dtype=np.uint64)
    found = uniforms(keys, np.zeros_like(keys))
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.04
