"""The library with the operators of recurrent layers, which is that of the CPU kernels for ONNX Runtime."""

from __future__ import annotations

import logging
from pathlib import Path

from ops.cpu.build import find_compiler
from pipelines.inference.backends.cpu_kernels import AUTO, describe, kernel_library, runs_here, setting
from pipelines.inference.backends.kernel_process import compile_kernels
from pipelines.inference.contracts.device_errors import ModelError

log = logging.getLogger(__name__)


def state_library() -> Path:
    """The library, compiled first where there is none yet.  Raises `ModelError` naming what is missing."""
    library = kernel_library("onnxruntime")
    if library is None and setting() == AUTO and runs_here() and find_compiler() is not None:
        library = _compiled()
    if library is None:
        raise ModelError(
            "its recurrent layers are computed on cuda by operators that are compiled with the CPU kernels "
            f"for ONNX Runtime ({describe()}); install a C++ compiler or the wheel braid-kernels, and leave "
            "BRAID_KERNELS unset or name a folder of them."
        )
    return library


def _compiled() -> Path | None:
    """The library that this or another process compiles, once that has ended; None where that failed."""
    log.info("the operators of recurrent layers are compiled, which takes about a minute the first time")
    compile_kernels(waits=True)
    return kernel_library("onnxruntime")
