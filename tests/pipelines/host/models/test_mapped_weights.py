"""Files of weights that are cut or rewritten while a model has them mapped."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ops.cpu.build import library_name
from pipelines.host.models.mapped_weights import MappedWeights, WeightsChanged, mapped_files

NUM_PAGES = 4000
READ = """
import ctypes, mmap, os, random, signal, sys
path, library, what = sys.argv[1:]
size = os.path.getsize(path)
pages = mmap.mmap(os.open(path, os.O_RDONLY), 0, access=mmap.ACCESS_COPY)
handler = ctypes.CDLL(library)
if what != "plain":
    assert [handler.braid_survive_cut_files() for _ in range(2)] == [0, 0]
os.truncate(path, mmap.PAGESIZE)
if what == "sent":
    os.kill(os.getpid(), signal.SIGBUS)
order = [*range(0, size, mmap.PAGESIZE)]
random.Random(1).shuffle(order)
assert {pages[at] for at in order} == {0, 7}
assert pages[: mmap.PAGESIZE] == bytes([7]) * mmap.PAGESIZE
assert pages[mmap.PAGESIZE :] == bytes(size - mmap.PAGESIZE)
print(handler.braid_cut_pages())
"""


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "model" / "model.bin"
    path.parent.mkdir()
    path.write_bytes(bytes([7]) * mmap.PAGESIZE * 3)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY):
        yield path


def read_after_a_cut(path: Path, library: Path, what: str) -> subprocess.CompletedProcess[str]:
    path.write_bytes(bytes([7]) * mmap.PAGESIZE * NUM_PAGES)
    command = [sys.executable, "-c", READ, path, library, what]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("engine", [None, "onnxruntime"])
def test_what_a_file_has_no_more_is_read_as_zeros(tmp_path, kernel_folder, engine):
    done = read_after_a_cut(tmp_path / "file", kernel_folder / library_name(engine), "handled")
    assert done.stdout.split() == [str(NUM_PAGES - 1)], done.stderr


@pytest.mark.parametrize("what", ["plain", "sent"])
def test_without_the_handler_and_by_a_signal_that_was_sent_a_process_ends(tmp_path, kernel_folder, what):
    done = read_after_a_cut(tmp_path / "file", kernel_folder / library_name(None), what)
    assert done.returncode == -signal.SIGBUS, done.stderr


@pytest.mark.parametrize(
    "change",
    [
        lambda path: os.truncate(path, 10),
        lambda path: os.truncate(path, 1 << 20),
        lambda path: path.write_bytes(bytes([8]) * path.stat().st_size),
    ],
    ids=["cut", "longer", "rewritten"],
)
def test_a_change_in_place_is_noticed(weights, change):
    os.utime(weights, ns=(1, 1))  # clocks of file systems tick some times in a second
    mapped = MappedWeights(weights.parent)
    mapped.check()
    change(weights)
    with pytest.raises(WeightsChanged, match=r"model\.bin was cut or rewritten"):
        mapped.check()
    mapped.close()
    mapped.check()  # nothing is watched any more


def test_a_file_that_is_replaced_or_removed_changes_nothing(weights):
    mapped = MappedWeights(weights.parent)
    (weights.parent / "new").write_bytes(b"other")
    (weights.parent / "new").replace(weights)
    mapped.check()
    weights.unlink()
    mapped.check()
    mapped.close()


def test_only_what_is_mapped_is_watched(weights):
    (weights.parent / "other.bin").write_bytes(b"read, not mapped")
    link = weights.parent / "linked.onnx"
    link.symlink_to(weights)
    assert sorted(mapped_files(weights.parent)) == [link, weights]
