"""Stores the graph that OpenVINO makes of a decoder, so that the next start skips most passes over it.

OpenVINO exports the graph of a compiled model as XML; weights stay in the model's own file, to which the XML
refers.  OpenVINO's own import refuses it, because it lacks what paged attention has noted in its nodes'
runtime information, as `k_head_size`: this is stored beside it, and the graph is read and compiled as a
model.
"""

from __future__ import annotations

import logging
import os
import struct
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import openvino as ov

from pipelines.adapters.weights import ProductShape
from pipelines.cpu_cores import num_confined_cores
from pipelines.element_types import DTYPES
from pipelines.host.backends.device_errors import ModelError
from pipelines.host.backends.openvino.arrays import NAMES
from pipelines.host.backends.openvino.decoder_session import OpenVINOSession
from pipelines.host.backends.openvino.decoder_settings import OpenVINOSettings
from pipelines.host.backends.openvino.mapped_files import MappedFile, page_after
from pipelines.host.backends.openvino.read_decoder import ReadDecoder, read_decoder
from pipelines.prepared_models import Entry, PreparedModels, digest

log = logging.getLogger(__name__)

GRAPH, CONSTANTS = "graph.xml", "constants.bin"
HEADER = struct.Struct("<6Q")
"""In an export: offset and size of the description of its outputs, of its constants, and of its XML."""
MAX_PREAMBLE = 4096
"""Bytes before the header."""
IN_FILE, FUSED_NAMES = "WeightlessCacheAttribute", "fused_names"
"""Runtime attributes: which bytes of the model's file a constant is, and names for profiles."""
ALIGNMENT = 64
"""Bytes, of a constant."""
WIDTHS = {"FP64": "f64", "FP32": "f32", "FP16": "f16", "BF16": "bf16", "BOOL": "boolean"}
"""Names of element types in attributes, where they are not those of constants in capitals."""


class NotStored(Exception):
    """This graph cannot be stored; the message says why."""


def open_prepared(path: Path, settings: OpenVINOSettings, store: PreparedModels) -> OpenVINOSession:
    """A session from what is stored of the model, or else from its files, and then that is stored.

    A stored graph is used only if its first step gives the very logits that were computed without it.
    Raises `ModelError`.
    """
    is_known = path.suffix == ".xml" and path.is_file() and path.with_suffix(".bin").is_file()
    if not is_known or not sys.platform.startswith("linux"):
        return OpenVINOSession(path, settings)
    name = _name(path, settings)
    entry = store.read(name)
    if entry is not None:
        session = _from_entry(entry, path, settings)
        if session is not None:
            return session
        store.remove(name, "does not give what its model gives")
    read = read_decoder(path, settings)
    notes, export = _notes(read.model), _Export()
    session = OpenVINOSession(path, settings, read, export.properties)
    try:
        facts, files = _stored(session, read, notes, export)
    except NotStored as reason:
        log.debug("%s: its graph is not stored: %s", path, reason)
    else:
        store.store(name, facts, files)
    return session


def _name(path: Path, settings: OpenVINOSettings) -> str:
    """The name of an entry: of a model's files, how it is compiled, the device, and the code that does it."""
    core, weights = ov.Core(), path.with_suffix(".bin").stat()
    config = path.parent / "config.json"
    sources: list[object] = [
        *(path.resolve(), weights.st_size, weights.st_mtime_ns),
        *(digest(file.read_bytes()) for file in (path, config) if file.is_file()),
        *(ov.__version__, core.get_property("CPU", "FULL_DEVICE_NAME"), os.cpu_count(), num_confined_cores()),
        sorted(core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")),
        sorted(settings.properties().items()),
        *(settings.headless, settings.targets is not None, sorted(settings.targets or ())),
        *(settings.retained, settings.activation_group),
        _code(),
    ]
    return f"{path.parent.name}-{digest(repr(sources).encode())}"


@cache
def _code() -> str:
    """The digest of the code that makes graphs: what an older version has stored is made again."""
    folder = Path(__file__).parent
    return digest(
        *(file.read_bytes() for each in (folder, folder.parent) for file in sorted(each.glob("*.py")))
    )


def _from_entry(entry: Entry, path: Path, settings: OpenVINOSettings) -> OpenVINOSession | None:
    """None where the entry cannot be read or computes something else."""
    try:
        session = OpenVINOSession(path, settings, _read(entry, path))
    except (ModelError, RuntimeError, OSError, LookupError) as error:
        log.warning("%s cannot be read: %s", entry.folder, error)
        return None
    if session.first_step == entry.facts["first_step"]:
        return session
    session.close()
    return None


def _read(entry: Entry, path: Path) -> ReadDecoder:
    """Raises RuntimeError for what OpenVINO refuses, and OSError."""
    facts = entry.facts
    weights = MappedFile(path.with_suffix(".bin"), entry.folder / CONSTANTS)
    core = ov.Core()
    core.get_property("CPU", "FULL_DEVICE_NAME")  # loads the device, and with it the operators of its own
    text = (entry.folder / GRAPH).read_bytes()
    model = core.read_model(text, ov.Tensor(weights.bytes, shared_memory=True))
    for node in model.get_ops():
        for key, value in facts["notes"].get(node.get_friendly_name(), {}).items():
            node.get_rt_info()[key] = value
    return ReadDecoder(
        model,
        facts["max_context"],
        [weights],
        products={name: ProductShape(*sizes) for name, sizes in facts["products"].items()},
        adapter_dtype=DTYPES[facts["adapter_dtype"]],
    )


def _stored(
    session: OpenVINOSession, read: ReadDecoder, notes: dict[str, dict[str, int]], export: _Export
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The facts and files of an entry.  Raises NotStored."""
    if read.embedded.table is not None or read.frames is not None or len(read.files) != 1:
        raise NotStored("its weights are in several files")
    graph, constants = export.read(session.exported())
    root = ElementTree.fromstring(graph)
    stored = _Constants(read.files[0], constants)
    for layer in root.iter("layer"):
        if layer.get("type") == "Const":
            stored.place(layer)
        for attribute in layer.findall("rt_info/attribute"):
            if attribute.get("name") in (IN_FILE, FUSED_NAMES):
                layer.find("rt_info").remove(attribute)  # type: ignore[union-attr]
    facts = {
        "max_context": read.max_context,
        "products": {name: [shape.size_in, shape.size_out] for name, shape in read.products.items()},
        "adapter_dtype": read.adapter_dtype.name,
        "notes": notes,
        "first_step": session.first_step,
    }
    return facts, {GRAPH: ElementTree.tostring(root), CONSTANTS: stored.behind}


class _Constants:
    """Where the constants of a graph are: in the model's file, or in what is stored `behind` it."""

    def __init__(self, file: MappedFile, exported: bytes) -> None:
        self._file = file.bytes
        self._exported = exported
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
        own = next((one for one in layer.iter("attribute") if one.get("name") == IN_FILE), None)
        if size:
            offset = self._append(self._exported[offset : offset + size])
        elif own is not None:
            offset, size = self._of_file(data.get("element_type", ""), own)
        data.set("offset", str(offset))
        data.set("size", str(size))

    def _of_file(self, element: str, own: ElementTree.Element) -> tuple[int, int]:
        """Offset and size of a constant that is a part of the file, perhaps of another type there."""
        stored = own.get("original_dtype", "")
        stored = WIDTHS.get(stored, stored.lower())
        offset, size = int(own.get("bin_offset", 0)), int(own.get("original_size", 0))
        if element == stored:
            return offset, size
        if stored not in NAMES or element not in NAMES:
            raise NotStored(f"a constant is {stored} in its file and {element} in the graph")
        values = self._file[offset : offset + size].view(DTYPES[NAMES[stored]])
        content = values.astype(DTYPES[NAMES[element]]).tobytes()
        return self._append(content), len(content)

    def _append(self, content: bytes) -> int:
        at = len(self._bytes)
        self._bytes += content + bytes(-len(content) % ALIGNMENT)
        return page_after(len(self._file)) + at


class _Export:
    """Lets OpenVINO export a graph without weights: `properties` are those to compile it with."""

    def __init__(self) -> None:
        self._graph = b""
        self.properties: dict[str, Any] = {
            "CACHE_MODE": "OPTIMIZE_SIZE",
            "CACHE_ENCRYPTION_CALLBACKS": [self._see, self._see],
        }

    def _see(self, graph: bytes) -> bytes:
        """What OpenVINO calls to encrypt the XML, which else it would obscure."""
        self._graph = graph
        return graph

    def read(self, blob: bytes) -> tuple[bytes, bytes]:
        """The XML of an export, and the constants in it.  Raises NotStored for a form that is not known."""
        for start in range(MAX_PREAMBLE):
            outputs, num_outputs, constants, num_constants, graph, num_graph = HEADER.unpack_from(blob, start)
            ends = outputs + num_outputs, constants + num_constants, graph + num_graph
            if (outputs, *ends) == (HEADER.size, constants, graph, len(blob) - start):
                first = start + constants
                return self._graph, blob[first : first + num_constants]
        raise NotStored("OpenVINO exports it in another form")


def _notes(model: ov.Model) -> dict[str, dict[str, int]]:
    """The numbers in the runtime information of nodes, by the nodes' names."""
    notes: dict[str, dict[str, int]] = {}
    for node in model.get_ops():
        for key, value in node.get_rt_info().items():
            with suppress(TypeError):  # OpenVINO's own kinds, which it writes itself
                if isinstance(value.value, int):
                    notes.setdefault(node.get_friendly_name(), {})[key] = value.value
    return notes
