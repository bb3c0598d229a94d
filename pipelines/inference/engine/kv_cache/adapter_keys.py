"""Where the prefix chains of adapters begin: each load of an adapter has chains of its own."""

from __future__ import annotations

import os
from hashlib import blake2b

from pipelines.adapters.weights import BASE, DIGEST_BYTES, AdapterWeights


class AdapterKeys:
    """The keys of the adapters that an engine holds, by load number.

    A key holds the content of an adapter's files, and how many loads of the same files came before: so no two
    loads share blocks, and the first one after a restart finds what the first one before it has stored.
    """

    def __init__(self) -> None:
        self._keys = {BASE: b""}  # of the loads held
        self._loads: dict[bytes, list[int]] = {}  # load numbers of the same files, in order

    def get(self, number: int) -> bytes | None:
        """DIGEST_BYTES; b"" for the base, None for an adapter that is not held."""
        return self._keys.get(number)

    def put(self, number: int, weights: AdapterWeights) -> None:
        """Hold a load; one that was held before gets the key that it had, unless its files have no digest."""
        content = weights.digest or os.urandom(DIGEST_BYTES)
        loads = self._loads.setdefault(content, [])
        if number not in loads:
            loads.append(number)
        earlier = loads.index(number).to_bytes(8, "little")
        self._keys[number] = blake2b(content, person=earlier, digest_size=DIGEST_BYTES).digest()

    def drop(self, number: int) -> None:
        self._keys.pop(number, None)
