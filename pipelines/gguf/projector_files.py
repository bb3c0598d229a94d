"""Which mmproj file belongs to a model: one beside it, a GGUF file with "mmproj" in its name."""

from __future__ import annotations

import re
from pathlib import Path

from pipelines.gguf.parts import GGUF, model_name

PROJECTOR = "mmproj"
QUANT = re.compile(
    r"(?:^|[-._])(?:UD-|i1-)?(?:I?Q|TQ|MXFP|NVFP|BF|FP?)(?P<bits>\d+)\w*$", re.IGNORECASE | re.ASCII
)


def is_projector(file: Path) -> bool:
    """Whether a name is that of a file that holds no language model but belongs to one."""
    return file.suffix.lower() == GGUF and PROJECTOR in file.name.lower()


def find_projector(model: Path) -> Path | None:
    """The mmproj file in the folder of a model; None where there is none.

    Where several models are in the folder, it must have the model's name.  Of several, the one whose weights
    have the nearest number of bits is taken, as llama.cpp chooses among those of a repository.
    """
    if model.suffix.lower() != GGUF:
        return None
    files = sorted(file for file in model.parent.iterdir() if file.suffix.lower() == GGUF and file.is_file())
    projectors, own_name = [file for file in files if is_projector(file)], _name(model)
    named = [file for file in projectors if _name(file) == own_name]
    is_alone = all(_name(file) == own_name for file in files if not is_projector(file))
    able = named or (projectors if is_alone else [])
    return min(able, key=lambda file: abs(_bits(file) - _bits(model)), default=None)


def _name(file: Path) -> str:
    """The name of a model in that of a file, without the type of its weights."""
    stem = re.sub(PROJECTOR, "", model_name(file), flags=re.IGNORECASE)
    return QUANT.sub("", stem.rstrip("-._")).strip("-._").lower()


def _bits(file: Path) -> int:
    """The bits of a quantisation in a file's name, 0 where it has none."""
    found = QUANT.search(model_name(file))
    return int(found["bits"]) if found else 0
