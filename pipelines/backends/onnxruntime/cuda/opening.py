"""A model.onnx and a GPU → the session that runs the one on the other.

The only module of this room that both reads files and starts devices.
"""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort

from ops.cuda.device import CupyDevice, DeviceError
from pipelines.backends.errors import ModelError
from pipelines.backends.onnx.reading import read_decoder
from pipelines.backends.onnxruntime.cuda.graphs import GATE
from pipelines.backends.onnxruntime.cuda.lowering import lower
from pipelines.backends.onnxruntime.cuda.provider import CudaRuntime
from pipelines.backends.onnxruntime.cuda.session import OnnxCudaSession
from pipelines.backends.onnxruntime.runtime import require_cuda


def open_cuda(path: Path, number: int, kv_cache: str | None) -> OnnxCudaSession:
    """The session for a model.onnx on GPU `number`.  Raises `ModelError` naming what is missing.

    CUDA's libraries may have come with pip; ONNX Runtime finds them only where they were loaded before.
    """
    require_cuda(f"cuda:{number}")
    lowered = lower(read_decoder(path), kv_cache)
    ort.preload_dlls()
    try:
        with GATE.calls():
            device = CupyDevice(number)
    except DeviceError as error:
        raise ModelError(f"device cuda:{number}: {error}") from error
    return OnnxCudaSession(lowered, device, CudaRuntime(number, device.stream))
