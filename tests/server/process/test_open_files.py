"""The limit of open files that the processes of a server have."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource
from server.process.open_files import allow_open_files

limits = {before}
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
allow_open_files()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [((256, 2048), "2048 2048"), ((1024, 1024), "1024 1024")],
)
def test_a_server_takes_what_the_system_allows(before, after):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == after.split()
