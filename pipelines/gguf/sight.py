"""How the decoder of a file reads what a vision model gives, and where in its folder that model is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

VISION = "vision"
"""The folder with the vision model of a decoder that reads images."""
NAME = "sight.json"


class Sight(NamedTuple):
    """After how many layers something is added (deepstack), and whether the tokens of an image attend to one
    another.
    """

    deep: int = 0
    whole_images: bool = False

    @classmethod
    def read(cls, folder: Path) -> Sight | None:
        """What `write` noted in a folder; None where it did not.  Raises OSError and ValueError."""
        file = folder / NAME
        return cls(*json.loads(file.read_text())) if file.is_file() else None

    def write(self, folder: Path) -> None:
        (folder / NAME).write_text(json.dumps(self))
