"""Tiny hybrid decoders, and what each of some prompts gives alone: those of optimum-intel by transformers, one
in Braid's ONNX format by plain recurrences.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from recurrences import Reference, write_recurrent

RECORDED = Path(__file__).parent / "recorded" / "hybrids"
EXPORTS = tuple(sorted(folder.name for folder in RECORDED.iterdir() if folder.is_dir()))
NODES = "recurrent nodes"
ON_RUNTIME = "recurrent nodes on ONNX Runtime"
ON_CUDA = "recurrent nodes on CUDA"
BY_KERNELS = ", by kernels"
"""Behind the name of a family that OpenVINO runs: Braid's own kernels compute its recurrent layers."""
FAMILIES = (
    NODES + BY_KERNELS,
    NODES,
    ON_RUNTIME,
    ON_CUDA,
    *EXPORTS,
    *(family + BY_KERNELS for family in EXPORTS),
)


class Recorded(NamedTuple):
    """Greedy tokens after a prompt and their log-probabilities."""

    prompt: list[int]
    token_ids: list[int]
    logprobs: list[float]


def unpack(family: str, folder: Path) -> Path:
    """The openvino_model.xml of a family, written with its weights and config.json to `folder`."""
    family = family.removesuffix(BY_KERNELS)
    for name in ("openvino_model.bin", "config.json"):
        shutil.copyfile(RECORDED / family / name, folder / name)
    path = folder / "openvino_model.xml"
    path.write_bytes(gzip.decompress((RECORDED / family / "openvino_model.xml.gz").read_bytes()))
    return path


def write(family: str, folder: Path) -> Path:
    """The model of a family."""
    return write_recurrent(folder) if family.startswith(NODES) else unpack(family, folder)


@cache
def recorded(family: str) -> list[Recorded]:
    family = family.removesuffix(BY_KERNELS)
    if family.startswith(NODES):
        return _computed()
    texts = json.loads((RECORDED / family / "texts.json").read_text())["texts"]
    return [Recorded(**text) for text in texts]


def _computed() -> list[Recorded]:
    prompts = [one.prompt for one in recorded(EXPORTS[0])]
    with tempfile.TemporaryDirectory() as folder:
        reference = Reference(write_recurrent(Path(folder)))
    continued = [reference.continued(prompt, 16) for prompt in prompts]
    return [Recorded(prompt, *each) for prompt, each in zip(prompts, continued, strict=True)]
