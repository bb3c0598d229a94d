"""The model node: one exported decoder, run once per step.

Workers import it too, to check graphs, so an inference engine is imported only when a file is opened.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.adapters.weights import AdapterRoom
from pipelines.base.prepared_models import PreparedModels
from pipelines.host.backends.open_model import Opener, log_opened_model, open_file, open_for_adapters
from pipelines.host.contracts.decoder_contract import DecoderSession
from pipelines.host.contracts.device_errors import EXPORT_ADVICE, ModelError
from pipelines.host.sampling.step_context import Logits, StepContext
from pipelines.nodes.adapters_config import AdaptersConfig
from pipelines.nodes.interface import Loading

Settings = TypeVar("Settings", bound="DecoderConfig")
OPENVINO_ALONE = ("activation_group", "sparse_prefill")
"""Settings that only OpenVINO has."""
DEVICES = r"^(cpu|gpu(\.\d+)?|cuda(:\d+)?|fake)$"


class SparsePrefill(NodeConfig):
    """What chunks of a prompt attend to before them, but for the last one."""

    first: int = Field(default=128, ge=0, description="tokens at the beginning of the context")
    recent: int = Field(default=1920, ge=32, description="tokens right before a chunk")


class DecoderConfig(NodeConfig):
    """How a decoder is opened."""

    path: FilePath = Field(description="an exported decoder: openvino_model.xml or model.onnx")
    device: str = Field(
        default="cpu", pattern=DEVICES, description="cpu, cuda:0, gpu (Intel) or fake (tests)"
    )
    engine: Literal["openvino", "onnxruntime"] | None = Field(
        default=None, description="what runs a model.onnx on cpu; default: openvino where it can"
    )
    kv_cache: Literal["f32", "f16", "bf16", "u8", "i8", "u4", "f8"] | None = Field(
        default=None, description="element type of the cache; default: the device's choice"
    )
    precision: Literal["f32", "bf16", "f16"] | None = Field(
        default=None,
        description="type of activations; default: f32, and with activation_group the device's choice; the "
        "others are faster and less exact; logits are always f32",
    )
    activation_group: Literal[0, 32, 64, 128] | None = Field(
        default=None,
        description="activations per scale where a product rounds them to 8 bits, 0: not rounded; more are "
        "faster and less exact; default: 0, and with precision bf16 or f16 the device's choice",
    )
    threads: int | None = Field(default=None, ge=1, description="default: every core")
    sparse_prefill: SparsePrefill | None = Field(
        default=None,
        description="{first, recent}: how many tokens at the beginning of the context and right before it a "
        "chunk of a prompt attends to, but for the last chunk; default: all",
    )

    @property
    def computed_in(self) -> str | None:
        """The type of activations on OpenVINO; None: the device's choice.

        What most processors choose, bfloat16 or sums of int8 products, changes about 4 first tokens of 100.
        """
        return self.precision or (None if self.activation_group else "f32")

    @property
    def room(self) -> AdapterRoom | None:
        """Which adapters may be loaded; None: none."""
        return None

    @property
    def targets(self) -> frozenset[str] | None:
        """What adapters may change, as q_proj; empty: every product; None: nothing."""
        return None if self.room is None else self.room.targets


class Model(Node):
    """Runs the decoder: writes keys and values of the step's tokens to the cache and gives logits of the
    sampled positions.
    """

    place = "step"
    session: DecoderSession

    class Config(DecoderConfig):
        adapters: AdaptersConfig | None = Field(default=None, description="LoRA adapters; default: none")

        @property
        def room(self) -> AdapterRoom | None:
            if self.adapters is None:
                return None
            return AdapterRoom(
                frozenset(self.adapters.targets), self.adapters.max_loaded, self.adapters.max_rank
            )

    def load(self, resources: Loading) -> None:
        config = on_device(self.config, resources)
        path, adapters = self.folder / config.path, config.adapters

        def opened(targets: tuple[str, ...]) -> DecoderSession:
            own = None if adapters is None else adapters.model_copy(update={"targets": targets})
            wanted = config.model_copy(update={"adapters": own})
            return resources.shared(open_session, path, wanted, resources.prepared)

        if adapters is None:
            self.session = opened(())
        else:
            found = adapters.found_targets(self.folder)
            self.session = open_for_adapters(adapters.targets, found, opened)
        log_opened_model(path, self.session.describe())

    def run(self, step: StepContext) -> Logits:
        return Logits(self.session.run(step.step), step, self.session.ops)

    def close(self) -> None:
        self.session.close()


def on_device(config: Settings, resources: Loading) -> Settings:
    """The settings, with the device that replaces the graph's, if there is one."""
    if resources.device is None:
        return config
    return config.model_copy(update={"device": resources.device})


def open_session(path: Path, config: DecoderConfig, prepared: PreparedModels | None = None) -> DecoderSession:
    """The session for a file, by its kind, device and engine; `prepared` is what engines made of models
    before.  Raises `ModelError`.
    """
    if config.device == "fake":
        return _open_fake(path, config)
    engines = ENGINES.get(path.suffix)
    if engines is None:
        raise ModelError(f"{path.name}: decoders are opened from {', '.join(ENGINES)}. {EXPORT_ADVICE}")
    if prepared is not None and "openvino" in engines:
        engines = engines | {"openvino": partial(_open_openvino, prepared=prepared)}
    return open_file(engines, path, config)


def _open_openvino(
    path: Path, config: DecoderConfig, prepared: PreparedModels | None = None
) -> DecoderSession:
    from pipelines.host.backends.openvino.decoder.decoder_session import OpenVINOSession
    from pipelines.host.backends.openvino.decoder.decoder_settings import OpenVINOSettings
    from pipelines.host.backends.openvino.paging.sparse_prefill import RetainedContext
    from pipelines.host.backends.openvino.prepared.prepared_decoder import open_prepared

    sparse = config.sparse_prefill
    settings = OpenVINOSettings(
        config.device,
        config.kv_cache,
        config.computed_in,
        config.threads,
        config.targets,
        retained=None if sparse is None else RetainedContext(sparse.first, sparse.recent),
        activation_group=config.activation_group,
    )
    return OpenVINOSession(path, settings) if prepared is None else open_prepared(path, settings, prepared)


def _open_onnxruntime(path: Path, config: DecoderConfig) -> DecoderSession:
    _refuse(config, "engine onnxruntime on cpu", "kv_cache", "precision", *OPENVINO_ALONE)
    from pipelines.host.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings

    return OnnxCpuSession(path, OnnxCpuSettings(threads=config.threads, targets=config.targets))


def _open_cuda(path: Path, config: DecoderConfig) -> DecoderSession:
    _refuse(config, f"device {config.device}", "precision", "threads", *OPENVINO_ALONE)
    from pipelines.host.backends.onnxruntime.cuda.open_decoder import open_decoder

    _, _, number = config.device.partition(":")
    return open_decoder(path, int(number or 0), config.kv_cache, config.room)


def _open_fake(path: Path, config: DecoderConfig) -> DecoderSession:
    _refuse(config, "device fake", "kv_cache", "precision", "threads", "engine", *OPENVINO_ALONE)
    from pipelines.host.backends.fake_decoder import FakeSession

    return FakeSession(**json.loads(path.read_text()))


def _refuse(config: DecoderConfig, what: str, *names: str) -> None:
    """Raise `ModelError` when a setting is named that `what` does not have."""
    unused = [name for name in names if getattr(config, name) is not None]
    if unused:
        raise ModelError(f"{what} has no {', '.join(unused)}.")


ENGINES: dict[str, dict[str, Opener[DecoderConfig, DecoderSession]]] = {
    ".xml": {"openvino": _open_openvino},
    ".onnx": {"openvino": _open_openvino, "onnxruntime": _open_onnxruntime, "cuda": _open_cuda},
}
"""File suffix → engine → what opens it; on cpu the first that can, unless the graph names one."""
