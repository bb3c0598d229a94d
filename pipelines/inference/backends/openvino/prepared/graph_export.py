"""Lets OpenVINO write the graph that it makes of a model."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.backends.openvino.model.mapped_files import MappedFile

HEADER = struct.Struct("<6Q")
"""In an export: offset and size of the description of its outputs, of its constants, and of its XML."""
MAX_PREAMBLE = 4096
"""Bytes before the header."""


class NotStored(Exception):
    """This graph cannot be stored; the message says why."""


class ExportedGraph(NamedTuple):
    """The XML of a graph and its constants, `uint8[size]`, in the mapped `file`; of a model that was read as
    IR those are not among them that are as in its file.
    """

    graph: bytes
    constants: NDArray[np.uint8]
    file: MappedFile


class GraphExport:
    """Where OpenVINO writes a graph: a model that is compiled with `properties` is written to `folder`.

    OpenVINO does so for its own cache, straight into a file: an export in memory would hold all weights
    several times.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._graph = b""
        self.properties: dict[str, Any] = {
            "CACHE_DIR": str(folder),
            "CACHE_MODE": "OPTIMIZE_SIZE",
            "CACHE_ENCRYPTION_CALLBACKS": [self._see, self._see],
        }

    def _see(self, graph: bytes) -> bytes:
        """What OpenVINO calls to encrypt the XML, which else it would obscure."""
        self._graph = graph
        return graph

    def read(self) -> ExportedGraph:
        """What was written.  Raises NotStored for a form that is not known, and OSError."""
        files = [file for file in self._folder.iterdir() if file.stat().st_size > HEADER.size]
        if len(files) != 1:
            raise NotStored(f"OpenVINO writes {len(files)} files of it")
        file = MappedFile(files[0])
        blob = file.bytes
        preamble = blob[: MAX_PREAMBLE + HEADER.size].tobytes()
        for start in range(len(preamble) - HEADER.size):
            outputs, num_outputs, constants, num_constants, graph, num_graph = HEADER.unpack_from(
                preamble, start
            )
            ends = outputs + num_outputs, constants + num_constants, graph + num_graph
            if (outputs, *ends) == (HEADER.size, constants, graph, len(blob) - start):
                first = start + constants
                return ExportedGraph(self._graph, blob[first : first + num_constants], file)
        raise NotStored("OpenVINO exports it in another form")
