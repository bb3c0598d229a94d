"""Images that clients have named: what stands for one that is not sent again, while its rows are there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.engine.batching.embed_cache import EmbedCache

MOST = 4096


class KnownImages:
    """The last image of each name, at most `most`; each tenant has names of its own.  Not safe for threads.

    What a worker knows of an image is opaque here: bytes, which are given back.
    """

    def __init__(self, rows: EmbedCache, most: int = MOST) -> None:
        self._rows = rows
        self._most = most
        self._images: OrderedDict[tuple[str, bytes], tuple[list[bytes], bytes]] = OrderedDict()

    def add(self, tenant: str, inputs: Mapping[str, NDArray[Any]], names: list[bytes]) -> None:
        """Image i of `uuids` has the parts from `spans[i, 0]` to `spans[i, 1]` of a request, whose rows have
        `names`; `known[i]` is what a worker knows of it.
        """
        images = zip(inputs["uuids"], inputs["spans"].tolist(), inputs["known"].tolist(), strict=True)
        for uuid, (begin, end), known in images:
            key = tenant, uuid.tobytes()
            self._images[key] = names[begin:end], known
            self._images.move_to_end(key)
            if len(self._images) > self._most:
                self._images.popitem(last=False)

    def find(self, tenant: str, uuids: NDArray[np.uint8]) -> NDArray[Any]:
        """object[images]: what is known of each; b"" where no image has the name, or its rows are gone."""
        found = np.empty(len(uuids), object)
        for i, uuid in enumerate(uuids):
            found[i] = self._find(tenant, uuid.tobytes())
        return found

    def _find(self, tenant: str, uuid: bytes) -> bytes:
        names, known = self._images.get((tenant, uuid), ([], b""))
        if not names or any(self._rows.find(name) is None for name in names):
            return b""
        self._images.move_to_end((tenant, uuid))
        return known
