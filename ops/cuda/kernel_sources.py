"""The source text of the CUDA kernels: all .cu files of this folder as one translation unit."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
WARP = 32
"""Threads of a warp, as `common.cu` has it."""
FILES = (
    "common.cu",
    "step_inputs.cu",
    "cache_blocks.cu",
    "logit_edits.cu",
    "sampling.cu",
    "draft_verification.cu",
    "logprobs.cu",
    "pooling.cu",
    "../cpu/state_sizes.h",
    "recurrent.cu",
)
"""In the order of compilation: later files use declarations of the first, and one those of a header."""
OPTIONS = ("-std=c++17", "-fmad=false")
"""Options of NVRTC.  A fused product and sum would round differently from numpy's.

cupy adds `-ftz=true`: numbers below 1.2e-38 count as 0.
"""


KERNEL = re.compile(r"__global__ void __launch_bounds__\(\d+\)\s+(\w+)\(")


SIZE = re.compile(r"^#define (\w+) (\d+)", re.MULTILINE)


@cache
def state_sizes() -> dict[str, int]:
    """The numbers of `ops/cpu/state_sizes.h`, by their names."""
    text = (FOLDER.parent / "cpu" / "state_sizes.h").read_text(encoding="utf-8")
    return {name: int(number) for name, number in SIZE.findall(text)}


@cache
def source() -> str:
    """All files, each after a `#line` directive, so that messages name the file."""
    parts = [f'#line 1 "{name}"\n{(FOLDER / name).read_text(encoding="utf-8")}' for name in FILES]
    return "\n".join(parts)


def kernel_names() -> list[str]:
    """The names of all kernels."""
    return KERNEL.findall(source())
