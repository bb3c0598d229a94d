"""Files of weights in memory: let go of, read again, never written to."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.model.mapped_files import MappedFile, release_pages_during

DEMO = Path(__file__).parents[6] / "model_repo" / "braid-demo" / "model"
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def pages_of(path: Path) -> dict[str, int]:
    """Kilobytes of this process's maps of a file, by smaps' names."""
    totals: dict[str, int] = {}
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith(str(path))
        elif inside and line.endswith("kB"):
            name, number, _ = line.split()
            totals[name.rstrip(":")] = totals.get(name.rstrip(":"), 0) + int(number)
    return totals


@pytest.fixture
def file(tmp_path):
    content = np.random.default_rng(0).integers(0, 256, 1 << 20, np.uint8)
    (tmp_path / "weights.bin").write_bytes(content.tobytes())
    return tmp_path / "weights.bin", content


@on_linux
def test_pages_that_were_let_go_of_are_not_resident_and_read_again(file):
    path, content = file
    mapped = MappedFile(path)
    assert (mapped.bytes == content).all()
    assert pages_of(path)["Rss"] == 1024
    mapped.release_pages()
    assert pages_of(path)["Rss"] == 0
    assert (mapped.bytes == content).all()


@on_linux
def test_what_is_read_once_does_not_stay(file):
    path, content = file
    mapped = MappedFile(path)
    with release_pages_during([mapped]):
        assert mapped.bytes.sum() == content.sum()
    assert pages_of(path)["Rss"] == 0


def test_the_thread_ends_with_what_fails(file):
    import threading

    with pytest.raises(RuntimeError), release_pages_during([MappedFile(file[0])]):
        raise RuntimeError
    assert all(thread.name != "let-go" for thread in threading.enumerate())


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "weights.bin").touch()
    with pytest.raises(ValueError, match="empty"):
        MappedFile(tmp_path / "weights.bin")


@on_linux
@pytest.mark.slow
def test_the_weights_of_an_ir_are_mapped_by_us_and_packed_from_there(exported):
    path = exported("llama")[1] / "openvino_model.xml"
    session = OpenVINOSession(path)
    found = pages_of(path.with_suffix(".bin"))
    assert found["Size"] > 0
    assert (found["Anonymous"], found["Private_Dirty"]) == (0, 0)
    assert found["Rss"] < found["Size"] / 2  # what is looked up may be there, the rest was packed
    session.close()


@on_linux
def test_a_warm_decoder_has_written_to_no_page_of_its_weights_and_holds_none_that_its_warm_up_read():
    """Since OpenVINO writes nothing there, letting go of a page loses nothing."""
    session = OpenVINOSession(DEMO / "model.onnx")
    session.reserve(16, 1)
    session.allocate(4)
    pages = pages_of(DEMO / "model.onnx.data")
    assert (pages["Anonymous"], pages["Private_Dirty"]) == (0, 0)
    assert pages["Size"] > 0
    resident = pages_of(DEMO / "model.onnx.data")["Rss"]
    assert session._files[0].bytes.sum() > 0
    assert pages_of(DEMO / "model.onnx.data")["Rss"] > 2 * resident
    while session.warm():
        pass
    assert pages_of(DEMO / "model.onnx.data")["Rss"] <= resident
    session.close()
