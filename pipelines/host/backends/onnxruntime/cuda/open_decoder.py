"""Opens a session for a model.onnx on a GPU."""

from __future__ import annotations

from pathlib import Path

from pipelines.adapters.weights import AdapterRoom
from pipelines.host.backends.adapter_inputs import check_products
from pipelines.host.backends.onnx.read_decoder import read_decoder
from pipelines.host.backends.onnxruntime.cuda.adapted_products import add_adapter_pools
from pipelines.host.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
from pipelines.host.backends.onnxruntime.cuda.lowered_decoder import AdaptedProduct
from pipelines.host.backends.onnxruntime.cuda.lowering import check_computed, lower
from pipelines.host.backends.onnxruntime.cuda.start_device import start_device
from pipelines.host.backends.onnxruntime.runtime import require_cuda


def open_decoder(
    path: Path, number: int, kv_cache: str | None, room: AdapterRoom | None = None
) -> OnnxCudaSession:
    """The session for a model.onnx on GPU `number`, with room for adapters if any is given.

    Raises `ModelError` where no GPU computes this decoder, else naming what is missing.
    """
    decoder = read_decoder(path)
    check_computed(decoder)
    adapted: tuple[AdaptedProduct, ...] = ()
    if room is not None:
        adapted = add_adapter_pools(decoder.model.graph, room.targets)
        check_products(path, {each.name for each in adapted})
    require_cuda(f"cuda:{number}")
    return OnnxCudaSession(lower(decoder, kv_cache, adapted), *start_device(number), room)
