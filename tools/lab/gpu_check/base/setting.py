"""What every check of the GPU gets, and the two ways in which it ends early."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Figures = dict[str, Any]
"""What a check measured: JSON values by name."""


class Failed(Exception):
    """A result is wrong; the message has the numbers, `look_at` the code to inspect first."""

    def __init__(self, why: str, look_at: str = "") -> None:
        super().__init__(why)
        self.look_at = look_at


class Absent(Exception):
    """The check cannot run here for a reason outside Braid; the message says what is missing."""


MEMORY = Path("/dev/shm")
WEIGHTS = (MEMORY if os.access(MEMORY, os.W_OK) else Path(tempfile.gettempdir())) / "braid-gpu-check"
"""In a memory file system if there is one: weights are written and read once."""


@dataclass(frozen=True)
class Setting:
    """What every check gets.  `quick` leaves out large shapes and repetitions.

    `figures_at` is written whenever figures are added, so that a stopped check leaves its figures.
    """

    pack: Path = Path("build/gpu_check")  # lowered graphs, made elsewhere where this machine cannot
    work: Path = WEIGHTS  # gigabytes, removed after use
    quick: bool = False
    figures_at: Path | None = None
    figures: Figures = field(default_factory=dict)

    def note(self, name: str, value: Any) -> None:
        """Store a figure for the report."""
        self.figures[name] = value
        if self.figures_at is not None:
            self.figures_at.write_text(json.dumps(self.figures))

    def say(self, text: str) -> None:
        """Print a progress line."""
        print(f"    {text}", flush=True)

    def to_json(self) -> str:
        paths = {name: value for name, value in asdict(self).items() if name != "figures"}
        return json.dumps(paths, default=str)

    @classmethod
    def from_json(cls, text: str) -> Setting:
        read = json.loads(text)
        at = read["figures_at"]
        return cls(Path(read["pack"]), Path(read["work"]), read["quick"], Path(at) if at else None)
