"""Runs an exported encoder on an NVIDIA GPU (`EncoderSession`); its output stays on the device."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort

from ops.cuda.device import Array, Device
from ops.cuda.device_buffers import DeviceBuffers
from ops.cuda.pooling import CudaPoolingOps
from pipelines.adapters.weights import WithoutAdapters
from pipelines.inference.backends.encoder_files import read_encoder_facts
from pipelines.inference.backends.encoder_io import PROBE_BATCH, blank_batch, output_shape
from pipelines.inference.backends.onnxruntime.cuda.bindings import run_options
from pipelines.inference.backends.onnxruntime.cuda.cuda_graphs import CAPTURE_LOCK, NO_GRAPH
from pipelines.inference.backends.onnxruntime.cuda.device_faults import raise_if_lost
from pipelines.inference.backends.onnxruntime.cuda.encoder_inputs import EncoderInputs
from pipelines.inference.backends.onnxruntime.cuda.provider import EncoderRuntime
from pipelines.inference.backends.onnxruntime.cuda.start_device import start_device
from pipelines.inference.backends.onnxruntime.runtime import (
    RUNTIME_ERRORS,
    error_text,
    require_provider,
    version,
)
from pipelines.inference.backends.onnxruntime.session_io import integer_inputs, read_output
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import EncoderSettings

log = logging.getLogger(__name__)

WARM_TOKENS, WARM_WIDTH = 8192, 512


class ValueType(NamedTuple):
    """A type of output values: its number in ONNX (TensorProto.DataType), and the array type that stores
    it.
    """

    number: int
    dtype: Any


VALUE_TYPES = {
    "tensor(float)": ValueType(1, np.float32),
    "tensor(float16)": ValueType(10, np.float16),
    "tensor(bfloat16)": ValueType(16, np.uint16),
}


def open_encoder(path: Path, settings: EncoderSettings) -> OnnxCudaEncoder:
    """The session of a model.onnx, config.json beside it.  Raises `ModelError` naming what is missing."""
    for name in ("precision", "threads"):
        if getattr(settings, name) is not None:
            raise ModelError(f"device {settings.device} has no {name}.")
    if settings.targets is not None:
        raise ModelError(
            f"device {settings.device}: encoders have no adapters there yet; serve them on cpu, or merge one."
        )
    require_provider(settings.device)
    _, _, number = settings.device.partition(":")
    return OnnxCudaEncoder(path, *start_device(int(number or 0)))


class OnnxCudaEncoder(WithoutAdapters):
    """One encoder (`EncoderSession`).  Raises `ModelError`.

    The output has the type of the model; `ops` reads it as it is.  Allocations and waits hold the capture
    lock, so that they do not disturb captures of CUDA graphs by other threads.
    """

    ops: CudaPoolingOps
    good_batch_tokens = WARM_TOKENS
    _session: ort.InferenceSession

    columns = None

    def __init__(self, path: Path, device: Device, runtime: EncoderRuntime) -> None:
        facts = read_encoder_facts(path.parent)
        if facts.min_width:
            raise ModelError(
                f"{path}: texts of this model are padded to {facts.min_width} tokens; use device cpu."
            )
        self.max_tokens, self.vocab_size = facts.max_tokens, facts.vocab_size
        self._device, self._place = device, (runtime.memory, runtime.number)
        self.ops, self._buffers = CudaPoolingOps(device, CAPTURE_LOCK.device_calls), DeviceBuffers(device)
        with CAPTURE_LOCK.device_calls():
            self._session = runtime.open_file(path)
        output = read_output(path, self._session, VALUE_TYPES)
        self._output, self._type = output.name, VALUE_TYPES[output.type]
        self._encoder_inputs = EncoderInputs(device, integer_inputs(path, self._session), facts.pad_id)
        self._is_warm = False
        self.per_token, self.size = self._try(path)

    def run(self, batch: TokenBatch) -> Array:
        """See the interface; float16 or bfloat16 (as uint16) when the model's output has such a type."""
        rows = batch.ids.shape if self.per_token else batch.lengths.shape
        try:
            with CAPTURE_LOCK.device_calls():
                values = self._buffers.take("values", (*rows, self.size), self._type.dtype)
                self._compute(batch, (*rows, self.size), self._device.pointer(values))
        except RUNTIME_ERRORS as error:
            raise_if_lost(self._device, error)
            raise RuntimeError(f"the encoder failed on {self._device.name}: {error_text(error)}") from error
        return values

    def warm(self) -> bool:
        """Compute a large batch once, so that kernels are loaded and memory is allocated before requests
        need them.
        """
        if not self._is_warm:
            self._is_warm = True
            try:
                width = min(self.max_tokens, WARM_WIDTH)
                self.run(blank_batch(WARM_TOKENS // width, width))
                with CAPTURE_LOCK.device_calls():
                    self._device.synchronize()
            except RuntimeError as error:
                log.warning("a batch of %s tokens was tried and failed: %s", WARM_TOKENS, error)
        return False

    def describe(self) -> Mapping[str, str]:
        return {
            "engine": f"onnxruntime {version()}",
            "device": self._device.name,
            "values": np.dtype(self._type.dtype).name.replace("uint16", "bfloat16"),
        }

    def close(self) -> None:
        with CAPTURE_LOCK.device_calls():
            for name in ("_session", "_encoder_inputs", "_buffers", "ops", "_device"):
                vars(self).pop(name, None)

    def _compute(self, batch: TokenBatch, shape: tuple[int, ...], out: int) -> None:
        """Enqueue a run; returns before it is computed."""
        binding = self._bound(batch)
        binding.bind_output(self._output, *self._place, self._type.number, shape, out)
        self._session.run_with_iobinding(binding, run_options(NO_GRAPH))

    def _bound(self, batch: TokenBatch) -> ort.IOBinding:
        """Bind the inputs; their arrays are held until the next batch, because ONNX Runtime stores only
        addresses.
        """
        binding = self._session.io_binding()
        for name, array in self._encoder_inputs.send(batch).items():
            where = (*self._place, array.dtype, array.shape, self._device.pointer(array))
            binding.bind_input(name, *where)
        return binding

    def _try(self, path: Path) -> tuple[bool, int]:
        """(whether the output has a vector per token, its length), from the output for one text."""
        try:
            with CAPTURE_LOCK.device_calls():
                binding = self._bound(PROBE_BATCH)
                binding.bind_output(self._output, *self._place)
                self._session.run_with_iobinding(binding)
        except RUNTIME_ERRORS as error:
            raise_if_lost(self._device, error)
            raise ModelError(f"{path} does not run on {self._device.name}: {error_text(error)}") from error
        return output_shape(path, np.empty(binding.get_outputs()[0].shape()))
