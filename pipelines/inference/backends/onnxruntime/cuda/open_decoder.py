"""Opens a session for a model.onnx on a GPU."""

from __future__ import annotations

from pathlib import Path

from pipelines.inference.backends.adapter_inputs import check_linears
from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
from pipelines.inference.backends.onnxruntime.cuda.lora_linears import add_adapter_pools
from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import LoraLinear
from pipelines.inference.backends.onnxruntime.cuda.lowering import check_computed, lower
from pipelines.inference.backends.onnxruntime.cuda.start_device import start_device
from pipelines.inference.backends.onnxruntime.runtime import require_cuda
from pipelines.inference.contracts.decoder_settings import DecoderSettings

LACKS = ("precision", "threads", "activation_group", "sparse_prefill", "routed_experts")


def open_decoder(path: Path, settings: DecoderSettings) -> OnnxCudaSession:
    """The session of a model.onnx on one GPU, with room for adapters if any is given.

    Raises `ModelError` where no GPU computes this decoder, else naming what is missing.
    """
    settings.refuse(f"device {settings.device}", *LACKS)
    decoder, room = read_decoder(path), settings.room
    check_computed(decoder)
    adapted: tuple[LoraLinear, ...] = ()
    if room is not None:
        adapted = add_adapter_pools(decoder.model.graph, room.targets)
        check_linears(path, {linear.name for linear in adapted})
    number = int(settings.device.partition(":")[2] or 0)
    require_cuda(f"cuda:{number}")
    return OnnxCudaSession(lower(decoder, settings.kv_cache, adapted), *start_device(number), room)
