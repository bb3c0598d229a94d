"""The encoder node: one exported encoder, run once per batch of texts.

Workers import it too, to check graphs, so an engine is imported only when a file is opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig, Place
from pipelines.inference.backends.open_model import log_opened_model, open_encoder, open_for_adapters
from pipelines.inference.backends.registry import ENCODERS, EncoderEngine, device_pattern
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import Encoded, RowShape, TokenBatch
from pipelines.inference.contracts.encoder_contract import EncoderSession, EncoderSettings
from pipelines.nodes.adapters_config import AdaptersConfig
from pipelines.nodes.interface import Loading


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
        device: str = Field(default="cpu", pattern=device_pattern(ENCODERS), description="cpu or cuda:0")
        engine: EncoderEngine | None = Field(
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
            targets = adapters.found_targets(self.folder)
            self.encoder = open_for_adapters(adapters.targets, targets, opened)
        if adapters is not None and self.encoder.columns is not None:
            raise ModelError(
                f"{path} encodes sounds or images, and adapters are for texts; remove `adapters`."
            )
        self.gives = RowShape(self.encoder.per_token, self.encoder.size)
        bounds = {"outputs": self.gives, "max_tokens": self.encoder.max_tokens}
        self.opened = log_opened_model(path, {**self.encoder.describe(), **bounds})

    def run(self, batch: TokenBatch) -> Encoded:
        return Encoded(self.encoder.run(batch), batch, self.encoder.ops)

    def close(self) -> None:
        self.encoder.close()
