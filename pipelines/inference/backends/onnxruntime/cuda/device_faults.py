"""Decides from a CUDA error whether the device can still compute."""

from __future__ import annotations

from ops.cuda.device import Device
from pipelines.inference.contracts.device_errors import DeviceLost

STICKY = (
    "illegal memory access",
    "illegal instruction",
    "misaligned address",
    "invalid program counter",
    "unspecified launch failure",
    "hardware stack error",
    "device-side assert",
    "uncorrectable ECC error",
    "launch timed out",
    "operation not supported on global/shared address space",
)
"""Messages of faults after which a CUDA context answers every call with the same error."""
STILL_CAPTURING = "stream is capturing"
"""Message when a capture was started and never ended: later calls are recorded and not computed."""


def raise_if_lost(device: Device, error: Exception) -> None:
    """Raise `DeviceLost` when every later call would meet the fault again; waits for the device."""
    if _says(error, STICKY):
        raise DeviceLost(f"{device.name}: {error}") from error
    try:
        device.synchronize()
    except Exception as later:
        if _says(later, (*STICKY, STILL_CAPTURING)):
            raise DeviceLost(f"{device.name}: {later}") from error


def _says(error: Exception, phrases: tuple[str, ...]) -> bool:
    return any(phrase in str(error) for phrase in phrases)
