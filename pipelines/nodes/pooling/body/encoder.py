"""The encoder node: one exported encoder, run once per batch of texts.

Chooses the engine by file and device.  Workers import it too, to check graphs, so an engine is imported only
when a file is opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig, Place
from pipelines.host.backends.open_model import Opener, log_opened_model, open_file, open_for_adapters
from pipelines.host.contracts.device_errors import ModelError
from pipelines.host.contracts.encoder_batch import Encoded, TokenBatch
from pipelines.host.contracts.encoder_contract import EncoderSession, EncoderSettings
from pipelines.nodes.adapters_config import AdaptersConfig
from pipelines.nodes.interface import Loading
from pipelines.nodes.pooling.body.pooled_shape import RowShape


class Encoder(Node):
    """Runs an encoder over a batch: gives a vector for each token, or what the model itself pools for each
    text.

    `encoder` is the open session, `gives` the shape of its output.
    """

    place: ClassVar[Place] = "step"
    encoder: EncoderSession
    gives: RowShape

    class Config(NodeConfig):
        path: FilePath = Field(description="an exported encoder: openvino_model.xml or model.onnx")
        device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$", description="cpu or cuda:0")
        engine: Literal["openvino", "onnxruntime"] | None = Field(
            default=None, description="what runs a model.onnx on cpu; default: openvino where it can"
        )
        precision: Literal["f32", "bf16", "f16"] | None = Field(
            default=None, description="type of activations; default: the device's choice"
        )
        threads: int | None = Field(default=None, ge=1, description="default: every core")
        adapters: AdaptersConfig | None = Field(
            default=None, description="LoRA adapters of an encoder of texts; default: none"
        )

    def load(self, resources: Loading) -> None:
        config = self.config
        device = resources.device or config.device
        path, adapters = self.folder / config.path, config.adapters

        def opened(targets: Iterable[str] | None) -> EncoderSession:
            room = None if targets is None else frozenset(targets)
            settings = EncoderSettings(device, config.engine, config.precision, config.threads, room)
            return resources.shared(open_encoder, path, settings)

        if adapters is None:
            self.encoder = opened(None)
        else:
            found = adapters.found_targets(self.folder)
            self.encoder = open_for_adapters(adapters.targets, found, opened)
        if adapters is not None and self.encoder.columns is not None:
            raise ModelError(
                f"{path} encodes sounds or images, and adapters are for texts; remove `adapters`."
            )
        self.gives = RowShape(self.encoder.per_token, self.encoder.size)
        bounds = {"outputs": self.gives, "max_tokens": self.encoder.max_tokens}
        log_opened_model(path, {**self.encoder.describe(), **bounds})

    def run(self, batch: TokenBatch) -> Encoded:
        return Encoded(self.encoder.run(batch), batch, self.encoder.ops)

    def close(self) -> None:
        self.encoder.close()


def open_encoder(path: Path, settings: EncoderSettings) -> EncoderSession:
    """The session for a file, by its kind, device and engine.  Raises `ModelError`."""
    engines = ENGINES.get(path.suffix)
    if engines is None:
        raise ModelError(f"{path.name}: encoders are opened from {', '.join(ENGINES)}.")
    if not path.is_file():
        raise ModelError(f"{path} does not exist.")
    return open_file(engines, path, settings)


def _open_openvino(path: Path, settings: EncoderSettings) -> EncoderSession:
    from pipelines.host.backends.openvino.encoder.encoder_session import OpenVINOEncoder
    from pipelines.host.backends.openvino.encoder.patch_encoder import PatchEncoder, has_merger
    from pipelines.nodes.pooling.body.headless_decoder import HeadlessDecoder, reads_rows

    if reads_rows(path):
        return HeadlessDecoder(path, settings)
    return PatchEncoder(path, settings) if has_merger(path) else OpenVINOEncoder(path, settings)


def _open_onnxruntime(path: Path, settings: EncoderSettings) -> EncoderSession:
    from pipelines.host.backends.onnxruntime.cpu.encoder_session import OnnxCpuEncoder

    return OnnxCpuEncoder(path, settings)


def _open_cuda(path: Path, settings: EncoderSettings) -> EncoderSession:
    from pipelines.host.backends.onnxruntime.cuda.encoder_session import open_encoder

    return open_encoder(path, settings)


ENGINES: dict[str, dict[str, Opener[EncoderSettings, EncoderSession]]] = {
    ".xml": {"openvino": _open_openvino},
    ".onnx": {"openvino": _open_openvino, "onnxruntime": _open_onnxruntime, "cuda": _open_cuda},
}
"""File suffix → engine → what opens it; on cpu the first that can, unless the graph names one."""
