"""Runs compute-sanitizer on the kernels: bad addresses, shared memory races, barriers, uninitialized memory.

Each of its tools runs the kernels' cases once more, at the smallest size, in a process of its own.
Every array has its own allocation, so that an access past its end is detected.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from typing import Any

from tools.lab.gpu_check.base.setting import Absent, Failed, Setting

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
NAME = "compute-sanitizer"
PLACES = ("/usr/local/cuda*/bin", "/opt/nvidia/**/compute-sanitizer", "/usr/local/cuda*/compute-sanitizer")
FOUND_EXIT = 86
TOOL_LIMIT_S = 45
SUMMARY = re.compile(r"(ERROR|RACECHECK) SUMMARY: (.*)")
SHOWN_LINES = 25


def check_sanitizer(setting: Setting) -> None:
    """Run every tool on every case; fails with the first lines of the findings."""
    program = find_sanitizer()
    if program is None:
        raise Absent(f"{NAME} is not on the PATH, in /usr/local/cuda*/bin or among pip's nvidia packages")
    wrong, broken = [], []
    for tool in TOOLS:
        status, output = _run(program, tool)
        summary = " ".join(" ".join(groups) for groups in SUMMARY.findall(output))
        setting.note(tool, {"status": status, "summary": summary})
        setting.say(f"{tool}: {summary or output[-200:]}")
        if status == FOUND_EXIT:
            wrong.append(f"{tool}: {summary}\n" + "\n".join(_findings(output)))
        elif status != 0:
            broken.append(f"{tool}: ended with {status}\n{output[-600:]}")
    if wrong:
        raise Failed("\n".join(wrong), "ops/cuda/*.cu at the lines above")
    if len(broken) == len(TOOLS):
        raise Absent(f"{program} does not work here: {broken[0]}")
    if broken:
        raise Failed("\n".join(broken))


def find_sanitizer() -> str | None:
    """The path of compute-sanitizer: on the PATH, in an installed toolkit, or in a package of pip."""
    beside = [path for place in PLACES for path in glob.glob(f"{place}/{NAME}", recursive=True)]
    spec = importlib.util.find_spec("nvidia")
    packages = list(spec.submodule_search_locations or []) if spec else []
    beside += [path for folder in packages for path in glob.glob(f"{folder}/**/{NAME}", recursive=True)]
    return shutil.which(NAME) or next((path for path in beside if os.access(path, os.X_OK)), None)


def _run(program: str, tool: str) -> tuple[int, str]:
    command = [program, "--tool", tool, "--error-exitcode", str(FOUND_EXIT), sys.executable, "-m", __name__]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        return -1, f"{output}\nnot done after {TOOL_LIMIT_S} s"
    return done.returncode, done.stdout + done.stderr


def _findings(output: str) -> list[str]:
    lines = [line for line in output.splitlines() if line.startswith("=========")]
    return lines[:SHOWN_LINES]


def main() -> None:
    """Run the cases at the smallest size on a device whose arrays share no memory; 1 when one fails."""
    from ops.cuda.device import CupyDevice
    from tools.lab.gpu_check.correctness.kernels import run_cases

    class Unpooled(CupyDevice):
        def empty(self, shape: Any, dtype: Any) -> Any:
            import cupy
            import numpy as np

            count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            memory = cupy.cuda.MemoryPointer(cupy.cuda.Memory(max(1, count)), 0)
            return cupy.ndarray(shape, dtype, memptr=memory)

    wrong = run_cases(Unpooled(), ["tiny"], Setting())
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
