"""Which slot of a file has which name, and which name leaves for another one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

WANTED = -1
"""The slot of a name that is still to be written."""


class SlotUse(NamedTuple):
    """The slot of a name, or WANTED, and its age: the largest is the one used last."""

    slot: int
    age: int


class SlotIndex:
    """Names in order of their last use; each has a slot of its own, or is wanted.

    A name belongs to a chain, whose beginning is of use without its end: of one chain the last name leaves
    first.
    """

    def __init__(self, num_slots: int, stored: Iterable[tuple[int, bytes, int]] = ()) -> None:
        """`stored`: slot, name and age of what a file holds already, in order of age."""
        self._places: OrderedDict[bytes, SlotUse] = OrderedDict()
        self._age = 0
        for slot, name, age in stored:
            self._places.pop(name, None)
            self._places[name] = SlotUse(slot, age)
            self._age = age
        taken = {place.slot for place in self._places.values()}
        self._free = [slot for slot in reversed(range(num_slots)) if slot not in taken]

    def __len__(self) -> int:
        return len(self._places)

    def slot_of(self, name: bytes) -> int | None:
        """The slot that holds the content of a name; None: none does."""
        place = self._places.get(name)
        return None if place is None or place.slot == WANTED else place.slot

    def use(self, chain: Sequence[bytes]) -> list[bytes]:
        """The chain is used now; returns those of its names that are new, and wanted from now on."""
        new = [name for name in chain if name not in self._places]
        for name in reversed(chain):
            self._age += 1
            known = self._places.pop(name, None)
            self._places[name] = SlotUse(WANTED if known is None else known.slot, self._age)
        return new

    def take(self, name: bytes) -> SlotUse | None:
        """A slot for a wanted name, whose last owner is found no more; None where all others are of more use.

        `put` or `remove` follows.
        """
        place = self._places.get(name)
        if place is None or place.slot != WANTED:
            return None
        if self._free:
            return SlotUse(self._free.pop(), place.age)
        for oldest, other in self._places.items():
            if oldest == name:
                break
            if other.slot != WANTED:
                del self._places[oldest]
                return SlotUse(other.slot, place.age)
        return None

    def put(self, name: bytes, slot: int) -> None:
        """The slot that was taken for a name holds its content."""
        self._places[name] = SlotUse(slot, self._places[name].age)

    def remove(self, name: bytes, slot: int = WANTED) -> None:
        """A name is not found any more; its slot, or the one taken for it, is free."""
        place = self._places.pop(name, None)
        if slot == WANTED and place is not None:
            slot = place.slot
        if slot != WANTED:
            self._free.append(slot)

    def places(self) -> list[SlotUse]:
        """The places of all names with a slot, in order of age."""
        return [place for place in self._places.values() if place.slot != WANTED]
