"""Has the CPU kernels compiled by another process while the engine host serves."""

from __future__ import annotations

import logging
import threading

from ops.cpu.build import CompileError, find_compiler
from pipelines.inference.backends.cpu_kernels import AUTO, describe, runs_here, setting

log = logging.getLogger("braid.host")


def start_build(device: str | None) -> None:
    """Begin in a thread, where the setting and the processor allow it; returns at once.

    `device`: what every model runs on instead of its own; nothing is compiled for a GPU.
    """
    if setting() == AUTO and runs_here() and not (device or "cpu").startswith("cuda"):
        threading.Thread(target=_build, name="kernels", daemon=True).start()


def _build() -> None:
    """Log what is done and what came of it.  The thread lives as long as the process that compiles."""
    from pipelines.host.kernel_build import missing
    from pipelines.inference.backends.kernel_process import BUSY, compile_kernels

    compiler = find_compiler()
    try:
        if compiler is None or not missing(compiler):
            log.info("%s", describe())
            return
    except (CompileError, OSError) as error:
        log.warning("CPU kernels cannot be compiled: %s", error)
        return
    log.info("CPU kernels are compiled in the background; until then linear layers are the engines' own")
    done = compile_kernels()
    for sentence in done.stdout.splitlines():
        log.info("%s", sentence)
    if done.returncode not in (0, BUSY):
        log.warning(
            "the process that compiled CPU kernels ended with %d; the next start tries again", done.returncode
        )
