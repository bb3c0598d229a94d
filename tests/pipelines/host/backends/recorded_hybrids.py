"""Tiny hybrid decoders of optimum-intel, and what transformers gives each of some prompts alone."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import NamedTuple

RECORDED = Path(__file__).parent / "recorded" / "hybrids"
FAMILIES = tuple(sorted(folder.name for folder in RECORDED.iterdir() if folder.is_dir()))


class Recorded(NamedTuple):
    """Greedy tokens after a prompt and their log-probabilities."""

    prompt: list[int]
    token_ids: list[int]
    logprobs: list[float]


def unpack(family: str, folder: Path) -> Path:
    """The openvino_model.xml of a family, written with its weights and config.json to `folder`."""
    for name in ("openvino_model.bin", "config.json"):
        shutil.copyfile(RECORDED / family / name, folder / name)
    path = folder / "openvino_model.xml"
    path.write_bytes(gzip.decompress((RECORDED / family / "openvino_model.xml.gz").read_bytes()))
    return path


def recorded(family: str) -> list[Recorded]:
    texts = json.loads((RECORDED / family / "texts.json").read_text())["texts"]
    return [Recorded(**text) for text in texts]
