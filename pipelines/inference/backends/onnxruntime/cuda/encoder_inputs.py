"""Uploads a batch of texts as the inputs of an encoder: one copy, and masks are computed on the device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ops.cuda.device import Array, Device
from ops.cuda.device_buffers import DeviceBuffers
from ops.cuda.packed_arrays import pack_arrays
from pipelines.inference.backends.encoder_io import input_arrays
from pipelines.inference.contracts.encoder_batch import TokenBatch

THREADS = 256
COMPUTED_INPUTS = frozenset({"attention_mask", "position_ids"})
"""Inputs that are computed on the device from the lengths of the texts."""


class EncoderInputs:
    """Fills the inputs of one model.  The next call of `send` overwrites its arrays."""

    def __init__(self, device: Device, inputs: Mapping[str, type[np.signedinteger]], pad_id: int) -> None:
        """`inputs`: name → integer type; `pad_id` fills a text's row after its end."""
        self._device, self._pad_id = device, pad_id
        self._sent = {name: dtype for name, dtype in inputs.items() if name not in COMPUTED_INPUTS}
        self._computed = {name: dtype for name, dtype in inputs.items() if name in COMPUTED_INPUTS}
        self._buffers = DeviceBuffers(device)

    def send(self, batch: TokenBatch) -> dict[str, Array]:
        """Every input by name, [num_texts, width], filled in the stream's order."""
        shape = batch.ids.shape
        *arrays, lengths = self._upload(batch)
        inputs = {name: array.reshape(shape) for name, array in zip(self._sent, arrays, strict=True)}
        for name, dtype in self._computed.items():
            inputs[name] = self._buffers.take(name, shape, dtype)
            self._fill(inputs[name], lengths if name == "attention_mask" else None)
        return inputs

    def _upload(self, batch: TokenBatch) -> list[Array]:
        arrays = input_arrays(batch, self._sent, self._pad_id).values()
        packed = pack_arrays([*arrays, batch.lengths.astype(np.int32)])
        into = self._buffers.take("sent", len(packed.bytes), np.uint8)
        return packed.layout.split(self._device.upload(packed.bytes, into))

    def _fill(self, out: Array, lengths: Array | None) -> None:
        """Fill a mask of texts of these lengths, or positions when `lengths` is None."""
        numbers = np.int32(out.shape[1]), np.int32(8 * out.dtype.itemsize), np.int64(out.size)
        self._device.launch("fill_integers", -(-out.size // THREADS), THREADS, lengths, *numbers, out)
