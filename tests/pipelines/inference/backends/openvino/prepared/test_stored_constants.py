"""Where constants of a stored graph are found, and how much of the files is in memory meanwhile."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.mapped_files import MappedFile
from pipelines.inference.backends.openvino.prepared.graph_export import ExportedGraph
from pipelines.inference.backends.openvino.prepared.stored_constants import StoredConstants

SIZE = 64 << 20


@pytest.fixture
def stored(tmp_path):
    """Constants of a model that reads its file in place, and the same bytes as exported."""
    content = np.random.default_rng(0).integers(0, 256, SIZE, np.uint8)
    for name in ("model", "exported"):
        content.tofile(tmp_path / name)
    file, exported = (MappedFile(tmp_path / name) for name in ("model", "exported"))
    constant = ov.op.Constant(ov.Tensor(file.bytes, [SIZE], ov.Type.u8), shared_memory=True)
    model = ov.Model([ops.convert(constant, "f32").output(0)], [])
    file.release_pages()
    return StoredConstants(file, model, ExportedGraph(b"", exported.bytes, exported), SIZE), exported


def place(stored, size=SIZE):
    layer = ElementTree.fromstring(f'<layer><data offset="0" size="{size}"/></layer>')
    stored.place(layer)
    return int(layer.find("data").get("offset"))


def mapped_bytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssFile"))


def test_files_are_not_held_in_memory_to_compare_them(stored):
    constants, _ = stored
    before = mapped_bytes()
    assert place(constants) == 0
    assert len(constants.behind) < 1024
    assert mapped_bytes() - before < SIZE // 4


def test_a_constant_with_another_byte_in_the_middle_is_stored_behind(stored):
    constants, exported = stored
    exported.bytes[SIZE - 100_000] ^= 1  # in a copy of the page
    exported.release_pages = lambda: None  # which that would drop
    with pytest.raises(Exception, match="take more than"):
        place(constants)
