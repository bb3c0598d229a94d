"""Opens an exported decoder on OpenVINO."""

from __future__ import annotations

from pathlib import Path

from pipelines.host.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.host.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.host.backends.openvino.model.inference_type import has_int8_sums
from pipelines.host.backends.openvino.model.operator_library import LinearKernels, find_kernels
from pipelines.host.backends.openvino.paging.sparse_prefill import RetainedContext
from pipelines.host.backends.openvino.prepared.prepared_decoder import open_prepared
from pipelines.host.contracts.decoder_settings import DecoderSettings

KERNEL_GROUP = 32
"""Activations that share a scale in Braid's own kernels."""


def open_decoder(path: Path, given: DecoderSettings) -> OpenVINOSession:
    """The session of an openvino_model.xml or model.onnx.  Raises `ModelError`."""
    settings = settings_of(given)
    if given.prepared is None:
        return OpenVINOSession(path, settings)
    return open_prepared(path, settings, given.prepared)


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
        kernels=_kernels(settings),
    )


def _kernels(settings: DecoderSettings) -> LinearKernels | None:
    """Braid's own kernels, where they fit the line; on the CPU alone, since no other device runs them.

    Two levels of int8 stand in for float32 where the line asks for nothing; one where OpenVINO would round
    activations in groups of 32 too.  Who asks for f32 or other groups gets OpenVINO's own sums.
    """
    asks_for_others = settings.precision == "f32" or settings.activation_group not in (None, KERNEL_GROUP)
    if settings.device != "cpu" or asks_for_others:
        return None
    rounds = settings.activation_group is not None or (settings.precision is not None and has_int8_sums())
    return find_kernels(levels=1 if rounds else 2)
