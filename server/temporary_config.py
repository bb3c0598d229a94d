"""The folder with the config.json of a server's only model, which is removed when the server ends.

For the master, which starts faster without what reads such a file.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

TEMPORARY = "braid-ovms-"
"""How the name of the folder begins."""


def remove_temporary(config: Path) -> None:
    """Remove what `write_temporary` of `ovms_config` made; any other file stays."""
    folder = config.parent
    if folder.name.startswith(TEMPORARY) and folder.parent == Path(tempfile.gettempdir()):
        shutil.rmtree(folder, ignore_errors=True)
