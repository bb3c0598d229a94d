"""Decides where the constants of a stored graph are: in the model's own file, or in a file behind it."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from pipelines.base.element_types import DTYPES
from pipelines.inference.backends.openvino.model.arrays import NAMES
from pipelines.inference.backends.openvino.model.mapped_files import MappedFile, page_after
from pipelines.inference.backends.openvino.prepared.graph_export import ExportedGraph, NotStored

IN_FILE = "WeightlessCacheAttribute"
"""Runtime attribute: which bytes of the model's file a constant is."""
ALIGNMENT = 64
"""Bytes, of a constant."""
WIDTHS = {"FP64": "f64", "FP32": "f32", "FP16": "f16", "BF16": "bf16", "BOOL": "boolean"}
"""Names of element types in attributes, where they are not those of constants in capitals."""
LEAST_FOUND = 1024
"""Bytes of a constant from which on it is searched in the model's file."""
ENDS = 64
"""Bytes at both ends of a constant by which it is searched, before all of them are compared."""

PIECE_BYTES = 16 << 20
"""Bytes that are compared at once."""


class StoredConstants:
    """Lets the constants of a graph refer to the model's file, or to what is stored `behind` it, which has at
    most `max_bytes`.

    `model` is what the graph was made of: where it reads the file in place, a constant of the graph with the
    same bytes does so too, of whatever shape it is there.
    """

    def __init__(self, file: MappedFile, model: ov.Model, exported: ExportedGraph, max_bytes: int) -> None:
        self._file = file.bytes
        self._mapped = file, exported.file
        constants = [node for node in model.get_ops() if node.get_type_name() == "Constant"]
        self._constants = {node.get_friendly_name(): node for node in constants}
        self._places = _places(file.bytes, constants)
        self._exported = exported.constants
        self._max_bytes = max_bytes
        self._bytes = bytearray(ALIGNMENT)  # not empty, so that it can be mapped

    @property
    def behind(self) -> bytes:
        """What is not in the model's file."""
        return bytes(self._bytes)

    def place(self, layer: ElementTree.Element) -> None:
        """Let a constant refer to where it is from now on.  Raises NotStored."""
        data = layer.find("data")
        assert data is not None, "a constant has data"
        offset, size = int(data.get("offset", 0)), int(data.get("size", 0))
        own = next(
            (attribute for attribute in layer.iter("attribute") if attribute.get("name") == IN_FILE), None
        )
        if size:
            offset = self._found_or_appended(self._exported[offset : offset + size])
        elif own is not None:
            offset, size = self._original(layer.get("name", ""), data.get("element_type", ""), own)
        data.set("offset", str(offset))
        data.set("size", str(size))

    def _found_or_appended(self, content: NDArray[np.uint8]) -> int:
        for at in self._places.get(_key(content), []) if len(content) >= LEAST_FOUND else []:
            if self._is_at(at, content):
                return at
        return self._append(content.tobytes())

    def _is_at(self, at: int, content: NDArray[np.uint8]) -> bool:
        """Whether the model's file has these bytes there.

        Pages of both files are released behind each piece: together they are twice the model.
        """
        for begin in range(0, len(content), PIECE_BYTES):
            piece = content[begin : begin + PIECE_BYTES]
            if not np.array_equal(self._file[at + begin : at + begin + len(piece)], piece):
                return False
            for file in self._mapped:
                file.release_pages()
        return True

    def _original(self, name: str, element: str, noted: ElementTree.Element) -> tuple[int, int]:
        """Offset and size of a constant that the export leaves out, as it notes: it is a part of the file, or
        a constant of the model, which has no size there; perhaps of another type.
        """
        stored = noted.get("original_dtype", "")
        stored = WIDTHS.get(stored, stored.lower())
        offset, size = int(noted.get("bin_offset", 0)), int(noted.get("original_size", 0))
        if not size:
            content = self._constants[name].data
        elif element == stored:
            return offset, size
        else:
            content = self._file[offset : offset + size]
        if element != stored:
            if stored not in NAMES or element not in NAMES:
                raise NotStored(f"a constant is {stored} in its model and {element} in the graph")
            content = content.view(DTYPES[NAMES[stored]]).astype(DTYPES[NAMES[element]])
        return self._append(content.tobytes()), content.nbytes

    def _append(self, content: bytes) -> int:
        at = len(self._bytes)
        if at + len(content) > self._max_bytes:
            raise NotStored(f"constants that are not in its file take more than {self._max_bytes} bytes")
        self._bytes += content + bytes(-len(content) % ALIGNMENT)
        return page_after(len(self._file)) + at


Key = tuple[int, bytes, bytes]


def _places(file: NDArray[np.uint8], constants: list[ov.op.Constant]) -> dict[Key, list[int]]:
    """Where in the file constants are, by what `_key` gives of them."""
    places: dict[Key, list[int]] = {}
    for node in constants:
        offset, size = node.data.ctypes.data - file.ctypes.data, node.get_byte_size()
        if size >= LEAST_FOUND and 0 <= offset < len(file):
            places.setdefault(_key(file[offset : offset + size]), []).append(offset)
    return places


def _key(content: NDArray[np.uint8]) -> Key:
    return len(content), content[:ENDS].tobytes(), content[-ENDS:].tobytes()
