"""The model alone with its tokenizer, which runs in every round."""

from __future__ import annotations

from pathlib import Path

from tools.lab.bench.pooling import alone
from tools.lab.bench.pooling.load import Embed


def opened(folder: Path) -> Embed:
    return alone.opened(folder, from_text=True)
