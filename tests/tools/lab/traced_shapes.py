"""Decoders of gpu_check's shapes in float32 without weights, each traced once in a process."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from pipelines.host.backends.onnx.decoder_model import DecoderModel
from tools.lab.gpu_check.packs.models import Shape


def traced(shape: Shape) -> DecoderModel:
    """A copy, which a test may change."""
    decoder = _traced(shape)
    return replace(decoder, model=decoder.model.clone())


@cache
def _traced(shape: Shape) -> DecoderModel:
    import torch

    from tools.lab.gpu_check.packs.pack import export_shape

    torch.set_num_threads(1)
    return export_shape(shape, torch.float32, "f32")
