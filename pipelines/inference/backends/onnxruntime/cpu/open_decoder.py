"""Opens a decoder in Braid's ONNX format on ONNX Runtime's CPU kernels."""

from __future__ import annotations

from pathlib import Path

from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.contracts.decoder_settings import DecoderSettings

LACKS = ("kv_cache", "precision", "activation_group", "sparse_prefill")


def open_decoder(path: Path, settings: DecoderSettings) -> OnnxCpuSession:
    """The session of a model.onnx.  Raises `ModelError`."""
    settings.refuse("engine onnxruntime on cpu", *LACKS)
    own = OnnxCpuSettings(
        threads=settings.threads, targets=settings.targets, routed_experts=settings.routed_experts
    )
    return OnnxCpuSession(path, own)
