"""A cache on a disk without room: it is said before, or where the disk becomes full, and the pull goes on later."""

from __future__ import annotations

import subprocess

import pytest
from fake_hub import Fault
from hub_rig import NAME, content

from pipelines.hub.base.errors import NoRoom

DISK_BYTES = 4 << 20


@pytest.fixture
def disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root alone")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk(rig, disk):
    rig.change(hub_cache=disk / "hub")
    rig.offer(Q8_0=content(DISK_BYTES + 1))
    with pytest.raises(NoRoom, match=r"acme/tiny needs 4.2 MB more in .*, which has 4.2 MB free"):
        rig.pull()
    assert rig.contents() == []
    data = content(2 << 20)
    rig.offer(Q8_0=data)
    fill = disk / "fill"

    def take_the_rest(sent):
        fill.write_bytes(bytes((3 << 20) - 200_000))
        return sent

    rig.hub.faults.append(Fault(NAME, spoil=take_the_rest))
    with pytest.raises(OSError, match="No space left") as caught:
        rig.pull()
    assert caught.value.errno == 28
    assert not (rig.models / NAME).exists()
    fill.unlink()
    assert (rig.pull() / "tiny-Q8_0.gguf").read_bytes() == data
