"""Chains of digests: equal only for equal beginnings under equal salt."""

from __future__ import annotations

from array import array

from pipelines.inference.engine.kv_cache.prefix_digests import DIGEST_BYTES, extend, root


def chain(token_ids: list[int], num_blocks: int, salt: str = "", block_tokens: int = 2) -> list[bytes]:
    digests: list[bytes] = []
    extend(digests, root(salt), array("q", token_ids), num_blocks, block_tokens)
    return digests


def test_a_digest_depends_on_everything_before_it():
    assert chain([1, 2, 3, 4], 2)[1] != chain([9, 2, 3, 4], 2)[1]
    assert chain([1, 2, 3, 4], 2)[0] == chain([1, 2, 9, 9], 2)[0]


def test_growing_in_two_strokes_gives_the_same_chain():
    token_ids = array("q", [1, 2, 3, 4, 5, 6])
    digests: list[bytes] = []
    extend(digests, root(""), token_ids, 1, 2)
    extend(digests, root(""), token_ids, 3, 2)
    assert digests == chain(list(token_ids), 3)


def test_salts_part_the_chains():
    assert chain([1, 2], 1, "a") != chain([1, 2], 1, "b")


def test_a_digest_is_the_same_in_every_process():
    assert chain([1, 2], 1)[0].hex() == "b06f0c667fcccdcd4e38bba3022e26cb"
    assert len(chain([1, 2], 1)[0]) == DIGEST_BYTES


def test_no_work_for_blocks_already_known():
    digests = [b"known"]
    extend(digests, root(""), array("q", [1, 2]), 1, 2)
    assert digests == [b"known"]
