"""Numbers of adapters: what a request with an earlier one gets, and what is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.base.errors import ModelNotFound, RequestError
from pipelines.host.adapters.adapter_discovery import AdaptersFound, FoundAdapter
from pipelines.host.adapters.registry import MAX_BY_HAND, MAX_NAMES, MAX_PAST, AdapterRegistry

FOLDER = Path("nowhere")


def one(name, digest="1"):
    return FoundAdapter(name, FOLDER / name, digest)


def test_a_number_of_an_earlier_load_finds_the_newest():
    registry, left = AdapterRegistry(), []
    registry.left = left.append
    first = registry.load("m", one("a"), by_hand=True)
    second = registry.load("m", one("a", "2"), by_hand=True)
    assert registry.current("m", first.number) == second
    assert left == [first.number]
    registry.unload("m", "a")
    with pytest.raises(ModelNotFound, match="`a` does not exist"):
        registry.current("m", second.number)


def test_numbers_are_new_even_where_the_same_is_found_again():
    registry = AdapterRegistry()
    found = AdaptersFound("m", FOLDER, (one("a"),))
    assert registry.found(found)
    assert not registry.found(found)
    [before] = registry.holding("a")
    assert registry.found(AdaptersFound("m", FOLDER, ()))
    assert registry.found(found)
    assert registry.holding("a")[0].number > before.number


def test_what_is_remembered_is_bounded():
    registry = AdapterRegistry()
    for _ in range(MAX_PAST + 50):
        registry.load("m", one("a"), by_hand=True)
    assert len(registry._names) == MAX_PAST + 1
    for i in range(MAX_BY_HAND - 1):
        assert not registry.is_full
        registry.load("m", one(f"b{i}"), by_hand=True)
    assert registry.is_full


def test_one_folder_has_a_bounded_number_of_names():
    """300 names for one folder were 300 loads, and 300 models in every list."""
    registry, path = AdapterRegistry(), FOLDER / "a"
    adapters = [FoundAdapter(f"name-{i}", path, "d") for i in range(MAX_NAMES + 1)]
    for adapter in adapters[:-1]:
        registry.check_names(adapter)
        registry.load("m", adapter, by_hand=True)
    with pytest.raises(RequestError, match="8 names already"):
        registry.check_names(adapters[-1])
    registry.check_names(adapters[0])  # loaded in place
    registry.check_names(FoundAdapter("other", FOLDER / "b", "d"))
    registry.unload("m", "name-0")
    registry.check_names(adapters[-1])
