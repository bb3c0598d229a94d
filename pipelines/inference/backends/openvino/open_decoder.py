"""Opens an exported decoder on OpenVINO."""

from __future__ import annotations

from pathlib import Path

import openvino as ov

from pipelines.inference.backends.onnx.own_weights import with_own_weights
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.decoder.packing_news import packing_news
from pipelines.inference.backends.openvino.model.inference_type import has_int8_sums, inference_type
from pipelines.inference.backends.openvino.model.operator_library import LinearKernels, find_kernels
from pipelines.inference.backends.openvino.paging.paged_attention import last_line
from pipelines.inference.backends.openvino.paging.sparse_prefill import RetainedContext
from pipelines.inference.backends.openvino.prepared.prepared_decoder import open_prepared
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.device_errors import ModelError

KERNEL_GROUP = 32
"""Activations that share a scale in Braid's own kernels."""


def open_decoder(path: Path, line: DecoderSettings) -> OpenVINOSession:
    """The session of an openvino_model.xml or model.onnx.  Raises `ModelError`."""
    settings = settings_of(line)
    if settings.kernels is None:
        path = with_own_weights(path)
    try:
        with packing_news(path, settings.kernels):
            if line.prepared is None:
                return OpenVINOSession(path, settings)
            return open_prepared(path, settings, line.prepared)
    except RuntimeError as error:  # of OpenVINO, or of the first step, which may read another file
        raise ModelError(f"{path} cannot be opened: {last_line(error)}") from error


def settings_of(settings: DecoderSettings) -> OpenVINOSettings:
    """How OpenVINO is to compile what a graph's line asks for.

    Activations are float32 unless the line says otherwise: what most processors choose, bfloat16 or sums of
    int8 linear layers, changes about 4 first tokens of 100.
    """
    return OpenVINOSettings(
        settings.device,
        settings.kv_cache,
        settings.precision or (None if settings.activation_group else "f32"),
        settings.threads,
        settings.targets,
        retained=None if settings.sparse_prefill is None else RetainedContext(*settings.sparse_prefill),
        activation_group=settings.activation_group,
        routed_experts=settings.routed_experts,
        kernels=_kernels(settings),
    )


def _kernels(settings: DecoderSettings) -> LinearKernels | None:
    """Braid's own kernels, where they fit the line; on the CPU alone, since no other device runs them.

    Two levels of int8 stand in for float32 where the line asks for nothing; one where OpenVINO would round
    activations in groups of 32 too.  Who asks for f32 or other groups gets OpenVINO's own sums, and so does
    who asks for f16 where the processor computes in it: then OpenVINO rewrites graphs, and operators that
    need float32 do not fit any more.
    """
    asks_for_others = settings.precision == "f32" or settings.activation_group not in (None, KERNEL_GROUP)
    if settings.device != "cpu" or asks_for_others:
        return None
    if settings.precision == "f16" and inference_type("f16") == ov.Type.f16:
        return None
    rounds = settings.activation_group is not None or (settings.precision is not None and has_int8_sums())
    return find_kernels(levels=1 if rounds else 2)
