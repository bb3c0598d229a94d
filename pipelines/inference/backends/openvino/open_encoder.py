"""Opens an exported encoder on OpenVINO: of texts, of sounds, of images, or a decoder that is used as one."""

from __future__ import annotations

from pathlib import Path

from pipelines.inference.backends.openvino.encoder.encoder_session import OpenVINOEncoder
from pipelines.inference.backends.openvino.encoder.headless_decoder import HeadlessDecoder, reads_rows
from pipelines.inference.backends.openvino.encoder.patch_encoder import PatchEncoder, reads_patches
from pipelines.inference.contracts.encoder_contract import EncoderSession, EncoderSettings


def open_encoder(path: Path, settings: EncoderSettings) -> EncoderSession:
    """The session of an .xml or .onnx.  Raises `ModelError`."""
    if reads_rows(path):
        return HeadlessDecoder(path, settings)
    return PatchEncoder(path, settings) if reads_patches(path) else OpenVINOEncoder(path, settings)
