"""Reusable device memory: one array for each name, which grows with the requested size."""

from __future__ import annotations

from numpy.typing import DTypeLike

from ops.cuda.device import Array, Device, num_bytes


class DeviceBuffers:
    """Arrays by name.  A request for a name overwrites the array that was returned before."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._bytes: dict[str, Array] = {}

    def take(self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
        """An array of this shape, with undefined content."""
        size = num_bytes(shape, dtype)
        buffer = self._bytes.get(name)
        if buffer is None or len(buffer) < size:
            self._bytes.pop(name, None)  # before the larger one is made: both may not fit
            buffer = self._bytes[name] = self._device.empty(size + size // 4, "uint8")
        return buffer[:size].view(dtype).reshape(shape)
