"""Braid's CUDA session over a packed model, on a machine that can neither export nor lower one.

Weights are written from a live torch model, opened, and removed.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.adapters.weights import AdapterRoom
from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import (
    QUANTIZED_RANGE,
    LoraLinear,
    LoweredDecoder,
)
from pipelines.onnx_format.decoder_format import AttentionLayer
from tools.lab.gpu_check.base.setting import Setting
from tools.lab.gpu_check.packs.packed import NotPacked, PackedModel, read_model
from tools.lab.gpu_check.packs.weights import file_bytes, write_weights

ROOM_TO_SPARE = 1.05


class ModelWithWeights(NamedTuple):
    """A packed model whose weights are in `folder`."""

    packed: PackedModel
    folder: Path


def packed_model(name: str, setting: Setting) -> PackedModel:
    """The model from the pack; exported here when there is no pack and exporting is installed."""
    try:
        return read_model(setting.pack, name)
    except NotPacked:
        try:
            from tools.lab.gpu_check.packs.models import SHAPES, WITH_ADAPTERS
            from tools.lab.gpu_check.packs.pack import pack_model
        except ImportError:
            pass
        else:
            shape = SHAPES[name.removesuffix(WITH_ADAPTERS)]
            return pack_model(shape, name.endswith(WITH_ADAPTERS))
        raise


@contextlib.contextmanager
def weights_of(name: str, model: Any, setting: Setting) -> Iterator[ModelWithWeights]:
    """The temporary weights file of a torch model of this shape."""
    packed = packed_model(name, setting)
    folder = _roomy(setting.work, file_bytes(packed.places)) / name
    try:
        write_weights(model, packed.places, folder)
        yield ModelWithWeights(packed, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _roomy(wanted: Path, num_bytes: int) -> Path:
    """The given folder, or one in the working directory when it has not enough space."""
    wanted.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(wanted).free
    return wanted if free > num_bytes * ROOM_TO_SPARE else Path("build") / "gpu_check_weights"


@contextlib.contextmanager
def cuda_session(
    written: ModelWithWeights,
    *,
    graphs: bool,
    max_tokens: int,
    max_sequences: int,
    room: AdapterRoom | None = None,
) -> Iterator[Any]:
    """A session on GPU 0 whose memory is reserved; `allocate` has not been called.  `room`: for a graph with
    room for adapters.
    """
    from ops.cuda.device import CupyDevice
    from pipelines.inference.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
    from pipelines.inference.backends.onnxruntime.cuda.provider import CudaRuntime

    device = CupyDevice()

    class Runtime(CudaRuntime):
        """With CUDA graphs or without, as requested."""

        def open(self, lowered: LoweredDecoder) -> Any:
            return self._open(lowered, graphs=graphs), graphs

    session = OnnxCudaSession(lowered(written), device, Runtime(0, device.stream), room)
    try:
        session.reserve(max_tokens, max_sequences)
        yield session
    finally:
        session.close()


def lowered(written: ModelWithWeights) -> LoweredDecoder:
    """The lowered graph of the session, with the facts in the pack."""
    packed = written.packed
    return LoweredDecoder(
        model=packed.model,
        folder=written.folder,
        layers=tuple(AttentionLayer(**layer) for layer in packed.layers),
        vocab_size=packed.vocab_size,
        max_context=packed.max_context,
        element_type=packed.element_type,
        block_tokens=packed.block_tokens,
        kv_cache=packed.cache,
        gathers=packed.cache in QUANTIZED_RANGE,
        adapted=tuple(LoraLinear(**fields) for fields in packed.adapted),
    )
