"""Memory on a device that is used again: an array for each name, which grows with what is asked for.

Knows sizes alone.
"""

from __future__ import annotations

from numpy.typing import DTypeLike

from ops.cuda.device import Array, Device, num_bytes


class DeviceBuffers:
    """Arrays by name.  What was taken before under a name is what is taken next: it is overwritten."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._bytes: dict[str, Array] = {}

    def take(self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
        """Of this shape; what it holds is undefined."""
        size = num_bytes(shape, dtype)
        kept = self._bytes.get(name)
        if kept is None or len(kept) < size:
            self._bytes.pop(name, None)  # before the larger one is made: both may not fit
            kept = self._bytes[name] = self._device.empty(size + size // 4, "uint8")
        return kept[:size].view(dtype).reshape(shape)
