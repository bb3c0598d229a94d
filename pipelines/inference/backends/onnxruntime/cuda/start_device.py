"""Starts a GPU: its device object, and the runtime that opens sessions on its stream."""

from __future__ import annotations

import onnxruntime as ort

from ops.cuda.device import CupyDevice, Device, DeviceError
from pipelines.inference.backends.onnxruntime.cuda.cuda_graphs import CAPTURE_LOCK
from pipelines.inference.backends.onnxruntime.cuda.provider import CudaRuntime
from pipelines.inference.contracts.device_errors import ModelError


def start_device(number: int) -> tuple[Device, CudaRuntime]:
    """Start GPU `number` for one session.  Raises `ModelError` naming what is missing.

    CUDA's libraries may be installed by pip; ONNX Runtime finds them only after they were loaded.
    """
    ort.preload_dlls()
    try:
        with CAPTURE_LOCK.device_calls():
            device = CupyDevice(number)
    except DeviceError as error:
        raise ModelError(f"device cuda:{number}: {error}") from error
    return device, CudaRuntime(number, device.stream)
