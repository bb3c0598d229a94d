"""Braid's CUDA session over a packed model, on a machine that can neither export nor lower one.

Weights are written from a live torch model, opened, and removed.  Knows how the session is put together;
knows nothing of what is checked with it.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from tools.gpu_check.bare import stand_in_for_onnx_ir
from tools.gpu_check.checks import Setting
from tools.gpu_check.packed import NotPacked, PackedModel, read_model
from tools.gpu_check.weights import file_bytes, write_weights

ROOM_TO_SPARE = 1.05


class Written(NamedTuple):
    """A packed model whose weights lie in `folder`."""

    packed: PackedModel
    folder: Path


def packed_model(name: str, setting: Setting) -> PackedModel:
    """From the pack; made here where there is none and exporting is installed."""
    try:
        return read_model(setting.pack, name)
    except NotPacked:
        try:
            from tools.gpu_check.models import SHAPES
            from tools.gpu_check.pack import pack_model
        except ImportError:
            pass
        else:
            return pack_model(SHAPES[name])
        raise


@contextlib.contextmanager
def weights_of(name: str, model: Any, setting: Setting) -> Iterator[Written]:
    """The weights' file of a torch model of this shape; removed at the end."""
    packed = packed_model(name, setting)
    folder = _roomy(setting.work, file_bytes(packed.places)) / name
    try:
        write_weights(model, packed.places, folder)
        yield Written(packed, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _roomy(wanted: Path, num_bytes: int) -> Path:
    """The wanted folder, or one in the working directory where that has no room."""
    wanted.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(wanted).free
    return wanted if free > num_bytes * ROOM_TO_SPARE else Path("build") / "gpu_check_weights"


@contextlib.contextmanager
def cuda_session(written: Written, *, graphs: bool, max_tokens: int, max_sequences: int) -> Iterator[Any]:
    """A session on GPU 0 whose memory is reserved; `allocate` is still to be called."""
    stand_in_for_onnx_ir()
    from ops.cuda.device import CupyDevice
    from pipelines.backends.onnx.cuda_runtime import CudaRuntime

    device = CupyDevice()

    class Runtime(_Packed, CudaRuntime):
        """ONNX Runtime's CUDA provider, given bytes."""

        def open(self, lowered: Any, folder: Path) -> Any:
            return self._open(lowered.model, folder, graphs=graphs), graphs

    session = open_session(written, device, Runtime(0, device.stream))
    try:
        session.reserve(max_tokens, max_sequences)
        yield session
    finally:
        session.close()


def open_session(written: Written, device: Any, runtime: Any) -> Any:
    """`OnnxCudaSession` without reading a model: the pack says what reading would have found."""
    from pipelines.backends.onnx import cuda

    runtime.packed = written.packed
    with mock.patch.object(cuda, "read_decoder", lambda folder: _decoder(written.packed, folder)):
        return cuda.OnnxCudaSession(written.folder, device, runtime)


def _decoder(packed: PackedModel, folder: Path) -> Any:
    from pipelines.backends.onnx.decoder import AttentionLayer

    return SimpleNamespace(
        model=None,
        folder=folder,
        layers=[AttentionLayer(**layer) for layer in packed.layers],
        vocab_size=packed.vocab_size,
        max_context=packed.max_context,
        element_type=packed.element_type,
    )


class _Packed:
    """The part of a runtime that lowers: done already."""

    packed: PackedModel

    def lower(self, decoder: Any, kv_cache: str | None) -> Any:
        from pipelines.backends.onnx.cuda_runtime import Lowered
        from pipelines.backends.onnx.lowering_cuda import CACHE_TYPES, QUANTIZED_RANGE

        packed, gathers = self.packed, self.packed.cache in QUANTIZED_RANGE
        element = CACHE_TYPES[packed.cache]
        return Lowered(packed.model, packed.block_tokens, element, packed.cache, gathers)
