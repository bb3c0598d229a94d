"""A decoder's settings as OpenVINO's properties, and models that are compiled with them."""

from __future__ import annotations

from typing import Any

import openvino as ov

from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.paging.paged_attention import last_line
from pipelines.inference.contracts.device_errors import ModelError


def whole_cache(settings: OpenVINOSettings) -> str:
    """The cache's element type for a decoder that has cross-attention, or whose states are read: that of the
    activations.

    A quantized cache has scales for several keys together, which each step would round again.
    """
    if settings.kv_cache in ("u8", "i8", "u4"):
        raise ModelError(
            f"kv_cache {settings.kv_cache}: a decoder that attends to the frames of an encoder has a cache "
            "of f32, bf16 or f16; remove the line."
        )
    precision = settings.precision or _name(ov.Core().get_property("CPU", "INFERENCE_PRECISION_HINT"))
    return settings.kv_cache or precision


def _name(element_type: ov.Type) -> str:
    return str(element_type.to_string())


def checked_properties(settings: OpenVINOSettings) -> dict[str, Any]:
    """The settings as properties of the device.  Raises `ModelError` naming what it does not support."""
    core, device = ov.Core(), settings.device.upper()
    if device not in core.available_devices:
        here = ", ".join(device.lower() for device in core.available_devices)
        raise ModelError(f"device {settings.device} is not available; OpenVINO finds: {here}.")
    if device != "CPU":
        raise ModelError(
            f"device {settings.device}: its cache is in host memory, which only cpu can write to."
        )
    if settings.precision == "f32" and settings.activation_group:
        raise ModelError("activation_group: with precision f32 no activation is rounded; remove one of both.")
    properties = settings.properties()
    known = core.get_property(device, "SUPPORTED_PROPERTIES")
    unknown = [name for name in properties if known.get(name) != "RW"]
    if unknown:
        missing = ", ".join(unknown)
        raise ModelError(f"device {settings.device} has no {missing} in OpenVINO {ov.__version__}.")
    return properties


def compile_for(model: ov.Model, device: str, properties: dict[str, Any]) -> ov.CompiledModel:
    """The model on a device.  Raises `ModelError`."""
    try:
        return ov.Core().compile_model(model, device.upper(), properties)
    except RuntimeError as error:
        raise ModelError(f"OpenVINO cannot compile the model for {device}: {last_line(error)}") from error
