"""Lines of the log that say how far weights of a GGUF file are packed, while a model is opened."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipelines.base.periodic import repeated_during
from pipelines.inference.backends.openvino.model.operator_library import LinearKernels
from pipelines.onnx_format.gguf_source import GgufSource

log = logging.getLogger(__name__)

NEWS_S = 5.0
"""Seconds between two lines."""


@contextmanager
def packing_news(path: Path, kernels: LinearKernels | None) -> Iterator[None]:
    """Log every few seconds of the block how much of the file of a model.onnx the kernels have packed."""
    source = None
    with suppress(OSError, ValueError, TypeError):  # to open the model will say what is wrong with it
        source = GgufSource.read(path.parent)
    if kernels is None or source is None:
        yield
        return
    packed, num_bytes, name = _packed_bytes(kernels), source.num_bytes, source.files[0].path
    start = packed()

    def log_share() -> None:
        if share := min(100 * (packed() - start) // num_bytes, 100):
            log.info("packed %d %% of %d MB of %s", share, num_bytes // 1_000_000, name)

    with repeated_during(log_share, NEWS_S, thread_name="packing-news"):
        yield


def _packed_bytes(kernels: LinearKernels) -> Callable[[], int]:
    """Bytes of GGUF files that this process has packed so far."""
    function: Callable[[], int] = ctypes.CDLL(str(kernels.library.path)).braid_packed_bytes
    function.restype = ctypes.c_uint64  # type: ignore[attr-defined]
    return function
