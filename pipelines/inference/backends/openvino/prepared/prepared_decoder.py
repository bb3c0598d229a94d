"""Stores the graph that OpenVINO makes of a decoder, so that the next start skips most passes over it.

OpenVINO exports the graph of a compiled model as XML; weights stay in the model's own file, to which the XML
refers.  OpenVINO's own import refuses it, because it lacks what paged attention has noted in its nodes'
runtime information, as `k_head_size`: this is stored beside it, and the graph is read and compiled as a
model.
"""

from __future__ import annotations

import glob
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import openvino as ov

from pipelines.adapters.weights import LinearShape
from pipelines.base.code_digest import code_digest
from pipelines.base.cpu_cores import num_confined_cores
from pipelines.base.digests import digest
from pipelines.base.element_types import DTYPES
from pipelines.base.prepared_models import Entry, PreparedModels
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.decoder.expert_layers import ExpertLayers
from pipelines.inference.backends.openvino.decoder.read_decoder import ReadDecoder, read_decoder
from pipelines.inference.backends.openvino.model.block_linears import BlockLinears, ComputedRecurrences
from pipelines.inference.backends.openvino.model.mapped_files import MappedFile
from pipelines.inference.backends.openvino.model.operator_library import LinearKernels
from pipelines.inference.backends.openvino.prepared.graph_export import GraphExport, NotStored
from pipelines.inference.backends.openvino.prepared.stored_constants import IN_FILE, StoredConstants
from pipelines.inference.backends.openvino.prepared.stored_graph import Notes, numbers_of_nodes, read_stored
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.routed_experts import RoutedShape

log = logging.getLogger(__name__)

GRAPH, CONSTANTS = "graph.xml", "constants.bin"
REFUSED = "refused"
"""Fact of an entry without files: what was stored of this model did not give what the model gives."""
AGAIN = "again"
"""Fact of an entry: whether it was made in the place of one that could not be read."""
MAKES_GRAPHS = ("pipelines.inference.backends", "pipelines.onnx_format", "pipelines.inference.contracts")
"""Modules that decide what graph is made of a model."""
FUSED_NAMES = "fused_names"
"""Runtime attribute: names for profiles."""
HALVES = ("f16", "bf16")
WHOLE_BYTES = 16 << 20
"""Files up to this size are compared by their content too, longer ones by size and time alone."""


def open_prepared(path: Path, settings: OpenVINOSettings, store: PreparedModels) -> OpenVINOSession:
    """A session from what is stored of the model, or else from its files, and then that is stored.

    A stored graph is used only if its first step gives the very logits that were computed without it; else
    it would not the next time either, so that is noted instead.  To store it may fail: the model is served
    then as it is.  Raises `ModelError`.
    """
    if not path.is_file() or not sys.platform.startswith("linux"):
        return OpenVINOSession(path, settings)
    name = _name(path, settings)
    entry = store.read(name)
    noted = {} if entry is None else entry.facts
    if entry is not None and REFUSED not in noted:
        session = _from_entry(entry, path, settings)
        if session is not None and session.first_step == noted["first_step"]:
            return session
        noted = _note_failure(name, noted, session, store)
    read = read_decoder(path, settings)
    weights = None if REFUSED in noted else _weights_beside(path, read)
    if weights is None or (path.suffix == ".onnx" and _has_halves(read)):
        log.debug("%s: its graph is not stored: it was refused, or for the files or types of weights", path)
        return OpenVINOSession(path, settings, read)
    with store.scratch(2 * len(weights.bytes)) as folder:
        if folder is None:
            return OpenVINOSession(path, settings, read)
        notes, export = numbers_of_nodes(read.model), GraphExport(folder)
        session = OpenVINOSession(path, settings, read, export.properties)
        try:
            facts, files = _stored(session, read, notes, export, store.max_bytes)
        except NotStored as reason:
            log.debug("%s: its graph is not stored: %s", path, reason)
        except (OSError, LookupError, ElementTree.ParseError) as error:  # the model is open, and served
            log.warning("%s: its graph is not stored: %s: %s", path, type(error).__name__, error)
        else:
            store.store(name, facts | {AGAIN: AGAIN in noted}, files)
    return session


def _note_failure(
    name: str, noted: Mapping[str, Any], session: OpenVINOSession | None, store: PreparedModels
) -> dict[str, Any]:
    """Remove an entry that gave a session with other logits, or none; return what is known from now on.

    One that cannot be read, perhaps for lack of memory, is made again once.
    """
    if session is None and not noted.get(AGAIN):
        store.remove(name, "cannot be read, and is made again")
        return {AGAIN: True}
    if session is not None:
        session.close()
    how = "cannot be read" if session is None else "does not give what its model gives"
    store.remove(name, f"{how}; from now on the model's own files are read")
    store.store(name, {REFUSED: True}, {})
    return {REFUSED: True}


def _name(path: Path, settings: OpenVINOSettings) -> str:
    """The name of an entry: of a model's files, how it is compiled, the device, and the code that does it."""
    core, read = ov.Core(), (path, path.parent / "config.json")
    sources: list[object] = [
        path.resolve(),
        *((file.name, stat.st_size, stat.st_mtime_ns) for file in _beside(path) for stat in [file.stat()]),
        *(digest(file.read_bytes()) for file in read if file.is_file() and file.stat().st_size < WHOLE_BYTES),
        *(ov.__version__, core.get_property("CPU", "FULL_DEVICE_NAME"), os.cpu_count(), num_confined_cores()),
        sorted(core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")),
        sorted(settings.properties().items()),
        *(settings.headless, settings.targets is not None, sorted(settings.targets or ())),
        settings.retained,
        settings.routed_experts is not None,
        settings.kernels and settings.kernels.title,
        code_digest(*MAKES_GRAPHS),
    ]
    return f"{path.parent.name}-{digest(repr(sources).encode())}"


def _beside(path: Path) -> list[Path]:
    """The files of a model, as model.onnx and model.onnx.data."""
    return sorted(file for file in path.parent.glob(f"{glob.escape(path.stem)}*") if file.is_file())


def _weights_beside(path: Path, read: ReadDecoder) -> MappedFile | None:
    """The file of its weights, where it is one of those that make the name of its entry."""
    if read.embedded.embeds_size or read.frames is not None or len(read.files) != 1:
        return None
    (file,) = read.files
    return file if file.path.resolve() in [each.resolve() for each in _beside(path)] else None


def _has_halves(read: ReadDecoder) -> bool:
    """Whether linear layers have weights of 16 bits: from ONNX, a stored graph rounds them otherwise than its
    model does.  A table of which rows are looked up is not rounded.
    """
    constants = [node for node in read.model.get_ops() if node.get_type_name() == "Constant"]
    halves = [node for node in constants if node.get_element_type().to_string() in HALVES]
    return any(node.get_byte_size() and not _is_looked_up(node) for node in halves)


def _is_looked_up(node: ov.Node) -> bool:
    """Whether rows of it are gathered, perhaps after a conversion, and nothing else is done with it."""
    readers = [port.get_node() for out in node.outputs() for port in out.get_target_inputs()]
    return all(
        each.get_type_name() == "Gather" or (each.get_type_name() == "Convert" and _is_looked_up(each))
        for each in readers
    )


def _from_entry(entry: Entry, path: Path, settings: OpenVINOSettings) -> OpenVINOSession | None:
    """None where the entry cannot be read, perhaps for lack of memory."""
    try:
        return OpenVINOSession(path, settings, _read(entry, path, settings.kernels))
    except (ModelError, RuntimeError, OSError, LookupError) as error:
        log.warning("%s cannot be read: %s", entry.folder, error)
        return None


def _read(entry: Entry, path: Path, kernels: LinearKernels | None) -> ReadDecoder:
    """Raises RuntimeError for what OpenVINO refuses, and OSError."""
    facts = entry.facts
    weights = MappedFile(path.parent / facts["weights"], entry.folder / CONSTANTS)
    model = read_stored((entry.folder / GRAPH).read_bytes(), weights, facts["notes"], kernels)
    return ReadDecoder(
        model,
        facts["max_context"],
        [weights],
        linears={name: LinearShape(*sizes) for name, sizes in facts["products"].items()},
        adapter_dtype=DTYPES[facts["adapter_dtype"]],
        block_linears=BlockLinears(**facts["block_linears"]),
        experts=ExpertLayers(**facts["experts"]),
        recurrent=ComputedRecurrences(**facts["recurrent"]),
        routed=RoutedShape(**facts["routed"]) if facts["routed"] else None,
    )


def _stored(
    session: OpenVINOSession,
    read: ReadDecoder,
    notes: Notes,
    export: GraphExport,
    max_bytes: int,
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The facts and files of an entry.

    Raises NotStored; OSError, LookupError and ParseError for an export that is not whole.
    """
    (file,) = read.files
    exported = export.read()
    root = ElementTree.fromstring(exported.graph)
    stored = StoredConstants(file, read.model, exported, max_bytes)
    for layer in root.iter("layer"):
        if layer.get("type") == "Const":
            stored.place(layer)
        for attribute in layer.findall("rt_info/attribute"):
            if attribute.get("name") in (IN_FILE, FUSED_NAMES):
                layer.find("rt_info").remove(attribute)  # type: ignore[union-attr]
    file.release_pages()
    facts = {
        "weights": file.path.name,
        "max_context": read.max_context,
        "products": {name: [shape.size_in, shape.size_out] for name, shape in read.linears.items()},
        "adapter_dtype": read.adapter_dtype.name,
        "block_linears": asdict(read.block_linears),
        "experts": asdict(read.experts),
        "recurrent": asdict(read.recurrent),
        "routed": read.routed and asdict(read.routed),
        "notes": notes,
        "first_step": session.first_step,
    }
    return facts, {GRAPH: ElementTree.tostring(root), CONSTANTS: stored.behind}
