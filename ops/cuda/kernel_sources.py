"""The kernels' source text: every .cu file of this folder, in one translation unit.

Knows files; knows nothing of compilers' bindings or devices.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
FILES = (
    "common.cu",
    "step_inputs.cu",
    "cache_blocks.cu",
    "logit_edits.cu",
    "sampling.cu",
    "draft_verification.cu",
    "logprobs.cu",
    "pooling.cu",
)
"""In the order in which they are compiled: later files use what the first declares."""
OPTIONS = ("-std=c++17", "-fmad=false")
"""Of NVRTC.  A product and a sum that are fused would round otherwise than numpy's.

cupy adds `-ftz=true`: numbers below 1.2e-38 count as 0.
"""


KERNEL = re.compile(r"__global__ void __launch_bounds__\(\d+\)\s+(\w+)\(")


@cache
def source() -> str:
    """All files, each behind a `#line` directive, so that messages name the file."""
    parts = [f'#line 1 "{name}"\n{(FOLDER / name).read_text(encoding="utf-8")}' for name in FILES]
    return "\n".join(parts)


def kernel_names() -> list[str]:
    return KERNEL.findall(source())
