"""A file of slots gives back what was written, or nothing: torn, foreign, full, taken by another owner."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipelines.inference.engine.kv_cache.prefix_file.slot_file import (
    HEADER_BYTES,
    SlotFile,
    SlotsTaken,
    read_facts,
    remove_file,
    slots_within,
)

ROOT = Path(__file__).parents[6]
SLOT_BYTES = 24
FACTS = {"model": "/models/a", "engine": "one"}
NAMES = [bytes([number]) * 16 for number in range(1, 9)]


def content(number: int) -> np.ndarray:
    return np.arange(number, number + SLOT_BYTES, dtype=np.uint8)


def opened(path, facts=FACTS, num_slots: int = 3, slot_bytes: int = SLOT_BYTES) -> SlotFile:
    return SlotFile(path, facts, slot_bytes, 2 * HEADER_BYTES + num_slots * (slot_bytes + 32))


def contents(file: SlotFile) -> dict[bytes, bytes]:
    """All that is found."""
    into = np.empty(file.slot_bytes, np.uint8)
    return {each.name: into.tobytes() for each in file.stored() if file.read(each.slot, each.name, into)}


@pytest.fixture
def path(tmp_path):
    """A file with two contents in three slots."""
    path = tmp_path / "deep" / "prefixes"
    file = opened(path)
    file.write(2, NAMES[0], 7, content(1))
    file.write(0, NAMES[1], 5, content(2))
    file.close()
    return path


WRITTEN = {NAMES[0]: content(1).tobytes(), NAMES[1]: content(2).tobytes()}


def test_contents_outlive_their_writer_in_order_of_age(path):
    file = opened(path)
    assert [(each.slot, each.name, each.age) for each in file.stored()] == [
        (0, NAMES[1], 5),
        (2, NAMES[0], 7),
    ]
    assert contents(file) == WRITTEN


def test_nothing_torn_is_given_back_whichever_byte_is_wrong(path):
    whole = path.read_bytes()
    unused = {*range(whole.index(b"\0"), HEADER_BYTES, 97)}, {*range(HEADER_BYTES + 96, len(whole), 97)}
    used = {*range(whole.index(b"\0"))}, {*range(HEADER_BYTES, HEADER_BYTES + 96)}
    for place in sorted(set().union(*unused, *used, range(len(whole) - 3 * SLOT_BYTES, len(whole)))):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        file = opened(path)
        readable = contents(file)
        file.close()
        assert readable.items() <= WRITTEN.items(), place
        in_use = HEADER_BYTES <= place < HEADER_BYTES + 96 or place >= len(whole) - 3 * SLOT_BYTES
        assert len(readable) >= (1 if in_use else 0)


def test_nothing_cut_is_given_back_wherever_the_file_ends(path):
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 61), *range(len(whole) - 3 * SLOT_BYTES, len(whole))]:
        path.write_bytes(whole[:length])
        file = opened(path)
        found = contents(file)
        file.close()
        assert found.items() <= WRITTEN.items(), length


def test_a_slot_that_was_half_overwritten_is_nothing(path):
    with path.open("r+b") as file:
        file.seek(-SLOT_BYTES, os.SEEK_END)
        file.write(content(9).tobytes()[:10])
    assert set(contents(opened(path))) == {NAMES[1]}


@pytest.mark.parametrize(
    "other",
    [
        {"facts": {**FACTS, "engine": "two"}},
        {"num_slots": 4},
        {"slot_bytes": SLOT_BYTES + 8},
    ],
)
def test_a_file_of_other_facts_or_another_size_is_emptied(path, other):
    file = opened(path, **other)
    assert contents(file) == {}
    file.write(0, NAMES[2], 1, np.zeros(file.slot_bytes, np.uint8))
    file.close()
    assert contents(opened(path, **other)) == {NAMES[2]: bytes(file.slot_bytes)}


def test_a_file_of_another_version_is_emptied(path):
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"braid prefixes 1", b"braid prefixes 0"))
    assert contents(opened(path)) == {}


def test_the_bound_is_that_of_the_whole_file(tmp_path):
    for max_bytes in range(2 * HEADER_BYTES, 4 * HEADER_BYTES, 997):
        file = SlotFile(tmp_path / str(max_bytes), FACTS, 8, max_bytes) if max_bytes > 8232 else None
        if file is None:
            assert slots_within(max_bytes, 8) == 0
            continue
        for slot in range(file.num_slots):
            file.write(slot, NAMES[0], 1, np.ones(8, np.uint8))
        assert (tmp_path / str(max_bytes)).stat().st_size <= max_bytes
        file.close()
    with pytest.raises(ValueError, match="hold no slot"):
        SlotFile(tmp_path / "none", FACTS, 8, 2 * HEADER_BYTES)


def test_a_file_has_one_owner_at_a_time(path):
    first = opened(path)
    with pytest.raises(SlotsTaken):
        opened(path)
    remove_file(path)
    assert path.exists()
    first.close()
    assert contents(opened(path)) == WRITTEN


def test_only_its_user_may_read_it(path):
    path.chmod(0o644)
    opened(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_links_and_folders_are_no_files(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"):
        opened(tmp_path / "link")
    with pytest.raises(OSError, match="directory"):
        opened(tmp_path)


def test_erasing_leaves_no_content_on_the_disk(path):
    file = opened(path)
    file.erase()
    assert contents(file) == {}
    assert content(1).tobytes() not in path.read_bytes()
    file.write(1, NAMES[3], 1, content(4))
    assert contents(file) == {NAMES[3]: content(4).tobytes()}


def test_a_file_that_is_cut_while_it_is_used_gives_nothing(path):
    file = opened(path)
    assert len(file.stored()) == 2
    os.truncate(path, HEADER_BYTES)
    assert not file.read(2, NAMES[0], np.empty(SLOT_BYTES, np.uint8))
    assert contents(file) == {}


def test_a_slot_that_is_overwritten_is_nothing_under_its_former_name(path, monkeypatch):
    """Another thread writes: before the read, and after its beginning."""
    file, into = opened(path), np.empty(SLOT_BYTES, np.uint8)
    file.stored()
    file.write(2, NAMES[4], 9, content(4))
    assert not file.read(2, NAMES[0], into)
    assert file.read(2, NAMES[4], into)
    preadv = os.preadv

    def late(*args):
        file.write(2, NAMES[5], 10, content(5))
        return preadv(*args)

    monkeypatch.setattr(os, "preadv", late)
    assert not file.read(2, NAMES[4], into)
    assert file.read(2, NAMES[5], into)


WRITER = """
import sys
from pathlib import Path
import numpy as np
from pipelines.inference.engine.kv_cache.prefix_file.slot_file import SlotFile
file = SlotFile(Path(sys.argv[1]), {}, 65536, 1 << 20)
for turn in range(1 << 20):
    name = (turn % 200).to_bytes(16, "little")
    file.write(turn * 7 % file.num_slots, name, turn, np.full(65536, turn % 200, np.uint8))
    if turn == 40:
        print("begun", flush=True)
"""


def test_a_writer_that_is_killed_leaves_nothing_false(tmp_path):
    path, into = tmp_path / "prefixes", np.empty(65536, np.uint8)
    for _ in range(4):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"begun\n"
            writer.kill()
        file = SlotFile(path, {}, 65536, 1 << 20)
        readable = [slot for slot in file.stored() if file.read(slot.slot, slot.name, into)]
        for slot_of_it in readable:
            assert file.read(slot_of_it.slot, slot_of_it.name, into)
            assert (into == int.from_bytes(slot_of_it.name, "little")).all()
        assert len(readable) >= file.num_slots - 2
        file.close()


def test_facts_are_read_of_files_of_slots_alone(path, tmp_path):
    assert read_facts(path)["model"] == "/models/a"
    for text in (b"", b"something", b"braid prefixes 1\n{", b"braid prefixes 1\n[]"):
        (tmp_path / "other").write_bytes(text)
        assert read_facts(tmp_path / "other") == {}


def test_a_file_without_an_owner_is_removed(path):
    remove_file(path)
    assert not path.exists()
