"""Files of metrics on a disk that has room, has none, and has some again."""

import errno
import math
import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import PATIENCE_S
from prometheus_client.mmap_dict import MmapedDict

from pipelines.telemetry import metric_files
from pipelines.telemetry.metric_files import MetricFile

WRITE = """
from pipelines.telemetry import metrics
metrics.model_loaded("m", 1.0, 5)
for number in range(700):
    metrics.model_retired(f"model-{number}", "idle")
"""


def read(path):
    """What other processes read of a file."""
    return {key: value for key, value, _, _ in MmapedDict.read_all_values_from_file(path)}


class Disk:
    """Gives room while it is not full."""

    def __init__(self, allocate):
        self.full, self.allocate = False, allocate

    def __call__(self, file, num_bytes):
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.allocate(file, num_bytes)


@pytest.fixture
def disk(monkeypatch):
    disk = Disk(metric_files._allocate)
    monkeypatch.setattr(metric_files, "_allocate", disk)
    monkeypatch.setattr(metric_files, "RETRY_S", 0.0)
    return disk


def test_every_page_of_every_file_has_its_room_on_the_disk(tmp_path):
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", WRITE], env=environment, check=True)
    files = [path.stat() for path in tmp_path.iterdir()]
    assert max(file.st_size for file in files) > metric_files.FIRST_BYTES  # of the one with 700 values
    assert len(files) >= 3
    assert all(file.st_blocks * 512 >= file.st_size for file in files)


def test_without_room_values_are_counted_and_stored_later(tmp_path, disk):
    disk.full = True
    file = MetricFile(str(tmp_path / "counter_1.db"))
    file.write_value("a", 1.0, 0.0)
    assert [*tmp_path.iterdir()] == []
    disk.full = False
    file.write_value("b", 2.0, 0.0)
    assert read(file._fname) == {"a": 1.0, "b": 2.0}
    file.close()


def test_a_file_that_is_written_no_more_is_stored_too(tmp_path, disk):
    disk.full = True
    once, often = (MetricFile(str(tmp_path / f"{name}.db")) for name in ("gauge_1", "counter_1"))
    once.write_value("a", 1.0, 0.0)
    disk.full = False
    often.write_value("b", 1.0, 0.0)
    assert read(once._fname) == {"a": 1.0}
    once.close()
    often.close()


def test_a_file_that_cannot_grow_stays_readable(tmp_path, disk):
    file = MetricFile(str(tmp_path / "counter_1.db"))
    file.write_value("a", 1.0, 0.0)
    disk.full = True
    for number in range(4000):
        file.write_value(f"key-{number}", 1.0, 0.0)
    stored = read(file._fname)
    assert stored["a"] == 1.0
    assert len(stored) < 4000
    disk.full = False
    file.write_value("a", 3.0, 0.0)
    assert (read(file._fname)["a"], len(read(file._fname))) == (3.0, 4001)
    file.close()


def test_what_an_earlier_process_of_this_pid_counted_goes_on(tmp_path):
    path = str(tmp_path / "counter_1.db")
    library = MmapedDict(path)
    library.write_value("a", 5.0, 0.0)
    library.close()
    file = MetricFile(path)
    assert file.read_value("a") == (5.0, 0.0)
    file.close()


@pytest.mark.parametrize("content", [b"", b"\0" * 7, b"\0" * 64])
def test_a_file_that_was_begun_is_begun_again(tmp_path, content):
    path = tmp_path / "counter_1.db"
    path.write_bytes(content)
    file = MetricFile(str(path))
    file.write_value("a", 1.0, 0.0)
    assert read(str(path)) == {"a": 1.0}
    file.close()


def test_a_value_that_is_written_while_its_file_is_replaced_is_not_lost(tmp_path, monkeypatch):
    disk, replacing, go_on = Disk(metric_files._allocate), threading.Event(), threading.Event()
    monkeypatch.setattr(metric_files, "_allocate", disk)
    monkeypatch.setattr(metric_files, "RETRY_S", 0.0)
    rename = os.rename

    def slow_rename(source, target):
        replacing.set()
        go_on.wait(PATIENCE_S)
        rename(source, target)

    disk.full = True
    file = MetricFile(str(tmp_path / "counter_1.db"))
    file.write_value("before", 1.0, 0.0)
    disk.full = False
    monkeypatch.setattr(os, "rename", slow_rename)
    storing = threading.Thread(target=metric_files.store_waiting)
    writing = threading.Thread(target=file.write_value, args=("meanwhile", 2.0, 0.0))
    storing.start()
    assert replacing.wait(PATIENCE_S)
    metric_files._waiting[file] = math.inf
    writing.start()
    writing.join(0.2)  # it waits, or has written into what is replaced
    go_on.set()
    for thread in (storing, writing):
        thread.join(PATIENCE_S)
    assert read(file._fname) == {"before": 1.0, "meanwhile": 2.0}
    file.close()


WRITES = st.lists(st.tuples(st.booleans(), st.text(max_size=300), st.floats(allow_nan=False)), max_size=40)


@settings(max_examples=40, deadline=None)
@given(writes=WRITES)
def test_values_are_what_was_written_whatever_the_disk_did(tmp_path_factory, writes):
    """A file can be read after each write; after one with room it has every value."""
    disk, folder = Disk(metric_files._allocate), tmp_path_factory.mktemp("metrics")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metric_files, "_allocate", disk)
        patch.setattr(metric_files, "RETRY_S", 0.0)
        patch.setattr(metric_files, "FIRST_BYTES", 64)
        file, wanted = MetricFile(str(folder / "counter_1.db")), {}
        for disk.full, key, value in [*writes, (False, "end", 1.0)]:
            file.write_value(key, value, 0.0)
            wanted[key] = value
            assert read(file._fname).keys() <= wanted.keys()
        assert read(file._fname) == wanted
        assert [file.read_value(key)[0] for key in wanted] == [*wanted.values()]
        file.close()
