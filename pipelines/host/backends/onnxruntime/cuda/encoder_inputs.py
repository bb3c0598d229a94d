"""A batch of texts → the arrays that an encoder reads, on the device: one copy up, and masks made there.

Knows arrays and the names of inputs; knows nothing of sessions or of what is computed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ops.cuda.device import Array, Device
from ops.cuda.device_buffers import DeviceBuffers
from ops.cuda.packed_arrays import pack_arrays
from pipelines.host.backends.encoder_io import input_arrays
from pipelines.host.engine.encoder_batch import TokenBatch

THREADS = 256
MADE = frozenset({"attention_mask", "position_ids"})
"""Inputs that follow from where texts end."""


class EncoderInputs:
    """Fills the inputs of one model.  Its arrays are used again by the next call of `send`."""

    def __init__(self, device: Device, inputs: Mapping[str, type[np.signedinteger]], pad_id: int) -> None:
        """`inputs`: name → integer type; `pad_id` stands behind texts."""
        self._device, self._pad_id = device, pad_id
        self._sent = {name: dtype for name, dtype in inputs.items() if name not in MADE}
        self._made = {name: dtype for name, dtype in inputs.items() if name in MADE}
        self._kept = DeviceBuffers(device)

    def send(self, batch: TokenBatch) -> dict[str, Array]:
        """Every input by name, [num_texts, width], filled in the stream's order."""
        shape = batch.ids.shape
        *arrays, lengths = self._upload(batch)
        inputs = {name: array.reshape(shape) for name, array in zip(self._sent, arrays, strict=True)}
        for name, dtype in self._made.items():
            inputs[name] = self._kept.take(name, shape, dtype)
            self._fill(inputs[name], lengths if name == "attention_mask" else None)
        return inputs

    def _upload(self, batch: TokenBatch) -> list[Array]:
        arrays = input_arrays(batch, self._sent, self._pad_id).values()
        packed = pack_arrays([*arrays, batch.lengths.astype(np.int32)])
        into = self._kept.take("sent", len(packed.bytes), np.uint8)
        return packed.layout.split(self._device.upload(packed.bytes, into))

    def _fill(self, out: Array, lengths: Array | None) -> None:
        """A mask of texts of these lengths, or positions."""
        numbers = np.int32(out.shape[1]), np.int32(8 * out.dtype.itemsize), np.int64(out.size)
        self._device.launch("fill_integers", -(-out.size // THREADS), THREADS, lengths, *numbers, out)
