"""Opens sessions on ONNX Runtime's CUDA provider, for lowered decoders and for encoders."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import onnxruntime as ort

from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import LoweredDecoder
from pipelines.inference.backends.onnxruntime.cuda.state_library import state_library
from pipelines.inference.backends.onnxruntime.runtime import CPU, CUDA, open_session
from pipelines.inference.contracts.device_errors import ModelError

log = logging.getLogger(__name__)

ENTRIES = {"session.use_device_allocator_for_initializers": "1"}
"""Weights are allocated outside the arena, which would round their sizes up."""
NO_CAPTURE = "graph capture"
"""Part of ONNX Runtime's message for a model that it opens only without CUDA graphs."""


class DecoderRuntime(Protocol):
    """Opens decoder sessions on one device.  `memory` and `number` identify the device in bindings."""

    memory: str
    number: int

    def open(self, lowered: LoweredDecoder) -> tuple[ort.InferenceSession, bool]:
        """The session, and whether it captures graphs.  Raises `ModelError`."""


class EncoderRuntime(Protocol):
    """Opens encoder sessions on one device: models that run as their files are, without CUDA graphs."""

    memory: str
    number: int

    def open_file(self, path: Path) -> ort.InferenceSession:
        """The session of a model.onnx.  Raises `ModelError`."""


class CudaRuntime:
    """One NVIDIA GPU.  Everything computes on `stream`, in order, and nothing waits for it."""

    memory = "cuda"

    def __init__(self, number: int, stream: int) -> None:
        self.number = number
        self._stream = stream

    def open(self, lowered: LoweredDecoder) -> tuple[ort.InferenceSession, bool]:
        """Open with CUDA graphs when possible; a node that runs only on the CPU prevents them."""
        if lowered.uncapturable:
            operators = ", ".join(lowered.uncapturable)
            log.warning("decode steps run without CUDA graphs: the model has %s", operators)
            return self._open(lowered, graphs=False), False
        try:
            return self._open(lowered, graphs=True), True
        except ModelError as error:
            if NO_CAPTURE not in str(error):
                raise
            log.warning("decode steps run without CUDA graphs: %s", error)
            return self._open(lowered, graphs=False), False

    def open_file(self, path: Path) -> ort.InferenceSession:
        try:
            return self._open_model(path.read_bytes(), path.parent, graphs=False)
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from error

    def _open(self, lowered: LoweredDecoder, *, graphs: bool) -> ort.InferenceSession:
        operators = state_library() if lowered.state_shapes else None
        return self._open_model(lowered.model, lowered.folder, operators, graphs=graphs)

    def _open_model(
        self, model: bytes, folder: Path, operators: Path | None = None, *, graphs: bool
    ) -> ort.InferenceSession:
        cuda = (CUDA, self.options(graphs))
        return open_session(model, folder, [cuda, CPU], threads=1, entries=ENTRIES, operators=operators)

    def options(self, graphs: bool) -> Mapping[str, str]:
        """The provider's options.

        kSameAsRequested: the arena grows by the requested size, not to the next power of two, and leaves the
        rest to the cache.  use_tf32: the angles of rotary embedding are a float32 linear layer in every
        export, and ten bits do not distinguish position 4096 from 4097.
        """
        return {
            "device_id": str(self.number),
            "user_compute_stream": str(self._stream),
            "enable_cuda_graph": str(int(graphs)),
            "arena_extend_strategy": "kSameAsRequested",
            "use_tf32": "0",
        }
