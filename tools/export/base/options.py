"""What the command line says of an export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

AUTO = "auto"


@dataclass(frozen=True)
class Options:
    """The options of the command line except the target folder."""

    task: str = AUTO
    form: str = AUTO
    weights: str = "int8"
    activations: str | None = None
    answers: tuple[str, str] | None = None
    template: Path | None = None
