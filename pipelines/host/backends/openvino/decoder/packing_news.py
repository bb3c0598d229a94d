"""Lines of the log that say how far weights of a GGUF file are packed, while a model is opened."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.host.backends.openvino.model.operator_library import LinearKernels
from pipelines.onnx_format.gguf_source import GgufSource

log = logging.getLogger(__name__)

NEWS_S = 5.0
"""Seconds between two lines."""


@contextmanager
def packing_news(path: Path, kernels: LinearKernels | None) -> Iterator[None]:
    """Log every few seconds of the block how much of the file of a model.onnx the kernels have packed."""
    source = None if kernels is None else GgufSource.read(path.parent)
    if kernels is None or source is None:
        yield
        return
    ended, packed = threading.Event(), _packed_bytes(kernels)
    start = packed()

    num_bytes, name = source.num_bytes, source.files[0].path

    def log_share() -> None:
        while not ended.wait(NEWS_S):
            if share := min(100 * (packed() - start) // num_bytes, 100):
                log.info("packed %d %% of %d MB of %s", share, num_bytes // 1_000_000, name)

    thread = threading.Thread(target=log_share, name="packing-news", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _packed_bytes(kernels: LinearKernels) -> Callable[[], int]:
    """Bytes of GGUF files that this process has packed so far."""
    function: Callable[[], int] = ctypes.CDLL(str(kernels.library.path)).braid_packed_bytes
    function.restype = ctypes.c_uint64  # type: ignore[attr-defined]
    return function
