from __future__ import annotations

from pathlib import Path

import pytest
from graphs_of_lines import write_graphs


@pytest.fixture(scope="package")
def every_line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the models of `graphs_of_lines`."""
    return write_graphs(tmp_path_factory.mktemp("lines"))
