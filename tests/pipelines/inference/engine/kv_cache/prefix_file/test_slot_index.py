"""Which names have slots, and which leave first: the ends of the chains used least recently."""

from __future__ import annotations

from pipelines.inference.engine.kv_cache.prefix_file.slot_index import SlotIndex

A, B, C, D, E, F = (bytes([number]) for number in range(6))


def write(index: SlotIndex, *names: bytes) -> list[int | None]:
    """Take a slot for each name, as if its block were written; None where there is none."""
    slots = []
    for name in names:
        place = index.take(name)
        slots.append(None if place is None else place.slot)
        if place is not None:
            index.put(name, place.slot)
        else:
            index.remove(name)
    return slots


def held(index: SlotIndex, *names: bytes) -> list[bytes]:
    return [name for name in names if index.slot_of(name) is not None]


def test_new_names_are_wanted_once_and_found_when_written():
    index = SlotIndex(3)
    assert index.use([A, B]) == [A, B]
    assert index.use([A, B, C]) == [C]
    assert held(index, A, B, C) == []
    assert write(index, A, B, C) == [0, 1, 2]
    assert held(index, A, B, C) == [A, B, C]
    assert index.use([A, B, C]) == []


def test_of_a_chain_the_end_leaves_first():
    index = SlotIndex(3)
    write(index, *index.use([A, B, C]))
    assert write(index, *index.use([D])) == [2]
    assert held(index, A, B, C, D) == [A, B, D]


def test_the_chain_that_was_used_least_recently_leaves_first():
    index = SlotIndex(4)
    write(index, *index.use([A, B]))
    write(index, *index.use([C, D]))
    index.use([A, B])
    write(index, *index.use([E, F]))
    assert held(index, A, B, C, D, E, F) == [A, B, E, F]


def test_a_chain_longer_than_the_file_keeps_its_beginning():
    index = SlotIndex(2)
    assert write(index, *index.use([A, B, C, D])) == [0, 1, None, None]
    assert held(index, A, B, C, D) == [A, B]


def test_a_name_that_was_removed_gives_its_slot_back():
    index = SlotIndex(2)
    write(index, *index.use([A, B]))
    index.remove(A)
    assert held(index, A, B) == [B]
    assert write(index, *index.use([C])) == [0]
    index.use([D])
    index.remove(D)
    index.remove(D)
    assert len(index) == 2


def test_a_slot_that_was_taken_in_vain_is_free_again():
    index = SlotIndex(1)
    index.use([A])
    place = index.take(A)
    index.remove(A, place.slot)
    assert write(index, *index.use([B])) == [0]


def test_what_a_file_holds_is_known_with_its_ages():
    index = SlotIndex(3, [(2, A, 4), (0, B, 9)])
    assert held(index, A, B) == [A, B]
    assert write(index, *index.use([C])) == [1]
    assert write(index, *index.use([D])) == [2]
    assert held(index, A, B, C, D) == [B, C, D]
    assert [place.slot for place in index.places()] == [0, 1, 2]
    assert [place.age for place in index.places()] == [9, 10, 11]


def test_a_name_that_a_file_holds_twice_is_the_newer_one():
    index = SlotIndex(3, [(0, A, 1), (1, A, 2)])
    assert index.slot_of(A) == 1
    assert write(index, *index.use([B, C])) == [0, 2]
