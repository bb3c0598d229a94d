"""Opens a session for a model.onnx on a GPU."""

from __future__ import annotations

from pathlib import Path

from pipelines.host.backends.onnx.read_decoder import read_decoder
from pipelines.host.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
from pipelines.host.backends.onnxruntime.cuda.lowering import check_computed, lower
from pipelines.host.backends.onnxruntime.cuda.start_device import start_device
from pipelines.host.backends.onnxruntime.runtime import require_cuda


def open_decoder(path: Path, number: int, kv_cache: str | None) -> OnnxCudaSession:
    """The session for a model.onnx on GPU `number`.

    Raises `ModelError` where no GPU computes this decoder, else naming what is missing.
    """
    decoder = read_decoder(path)
    check_computed(decoder)
    require_cuda(f"cuda:{number}")
    return OnnxCudaSession(lower(decoder, kv_cache), *start_device(number))
