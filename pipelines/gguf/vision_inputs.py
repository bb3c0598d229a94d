"""How the decoder of a file reads what a vision model gives, and where in its folder that model is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, NamedTuple

VISION = "vision"
"""The folder with the vision model of a decoder that reads images."""
NAME = "sight.json"


Layers = Literal["", "windowed", "all"]


class VisionInputs(NamedTuple):
    """After how many layers something is added (deepstack), and in which layers the tokens of an image attend
    to one another: where `windowed`, in those that attend to a window.
    """

    deep: int = 0
    whole_images: Layers = ""

    def layers_of(self, layer_size: int) -> Layers:
        """`whole_images` of a decoder whose layers have embeddings of `layer_size` numbers of their own: with
        those, in the small models of Gemma 4, it reads images in order.
        """
        return "" if self.whole_images == "windowed" and layer_size else self.whole_images

    @classmethod
    def read(cls, folder: Path) -> VisionInputs | None:
        """What `write` noted in a folder; None where it did not.  Raises OSError and ValueError."""
        file = folder / NAME
        return cls(*json.loads(file.read_text())) if file.is_file() else None

    def write(self, folder: Path) -> None:
        (folder / NAME).write_text(json.dumps(self))
