"""The model node: one exported decoder, run once per step.

Workers import it too, to check graphs, so an inference engine is imported only when a file is opened.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.adapters.weights import AdapterRoom
from pipelines.base.prepared_models import PreparedModels
from pipelines.inference.backends.open_model import log_opened_model, open_decoder, open_for_adapters
from pipelines.inference.backends.registry import DECODERS, DecoderEngine, device_pattern
from pipelines.inference.contracts.decoder_contract import DecoderSession, RoutesExperts
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.routed_experts import ExpertRecord
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.nodes.adapters_config import AdaptersConfig
from pipelines.nodes.interface import Loading


class SparsePrefill(NodeConfig):
    """What chunks of a prompt attend to before them, but for the last one."""

    first: int = Field(default=128, ge=0, description="tokens at the beginning of the context")
    recent: int = Field(default=1920, ge=32, description="tokens right before a chunk")


class DecoderConfig(NodeConfig):
    """How a decoder is opened."""

    path: FilePath = Field(description="an exported decoder: openvino_model.xml or model.onnx")
    device: str = Field(
        default="cpu",
        pattern=device_pattern(DECODERS),
        description="cpu, cuda:0, gpu (Intel) or fake (tests)",
    )
    engine: DecoderEngine | None = Field(
        default=None, description="what runs a model.onnx on cpu; default: openvino where it can"
    )
    kv_cache: Literal["f32", "f16", "bf16", "u8", "i8", "u4", "f8"] | None = Field(
        default=None, description="element type of the cache; default: the device's choice"
    )
    precision: Literal["f32", "bf16", "f16"] | None = Field(
        default=None,
        description="type of activations; default: f32, which Braid's own kernels keep to 15 bits, and with "
        "activation_group the device's choice; f32: without those kernels; the others are faster and less "
        "exact; logits are always f32",
    )
    activation_group: Literal[0, 32, 64, 128] | None = Field(
        default=None,
        description="activations per scale where a linear layer rounds them to 8 bits, 0: not rounded; more "
        "are faster and less exact; default: 0, and with precision bf16 or f16 the device's choice",
    )
    threads: int | None = Field(default=None, ge=1, description="default: every core")
    sparse_prefill: SparsePrefill | None = Field(
        default=None,
        description="{first, recent}: how many tokens at the beginning of the context and right before it a "
        "chunk of a prompt attends to, but for the last chunk; default: all",
    )
    routed_experts: Literal["counted", "returned"] | None = Field(
        default=None,
        description="whether choices of a mixture's experts are recorded: counted, for the status page and "
        "replies to requests with `return_routed_experts`; returned, in all whole replies too, as with "
        "vLLM's enable_return_routed_experts; default: not",
    )

    @property
    def room(self) -> AdapterRoom | None:
        """Which adapters may be loaded; None: none."""
        return None

    def settings(self, device: str | None = None, prepared: PreparedModels | None = None) -> DecoderSettings:
        """How an engine is to open it; `device` replaces the graph's."""
        sparse = self.sparse_prefill
        return DecoderSettings(
            device=device or self.device,
            engine=self.engine,
            kv_cache=self.kv_cache,
            precision=self.precision,
            activation_group=self.activation_group,
            threads=self.threads,
            sparse_prefill=None if sparse is None else (sparse.first, sparse.recent),
            routed_experts=self.routed_experts,
            room=self.room,
            prepared=prepared,
        )


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
        path, adapters = self.folder / self.config.path, self.config.adapters
        settings = self.config.settings(resources.device, resources.prepared)

        def opened(targets: tuple[str, ...]) -> DecoderSession:
            room = None if settings.room is None else replace(settings.room, targets=frozenset(targets))
            return resources.shared(open_decoder, path, replace(settings, room=room))

        if adapters is None:
            self.session = opened(())
        else:
            targets = adapters.found_targets(self.folder)
            self.session = open_for_adapters(adapters.targets, targets, opened)
        self._opened = log_opened_model(path, self.session.describe())

    @property
    def opened(self) -> dict[str, str]:
        """How the decoder is run, and how evenly its experts are used, where that is counted."""
        routed = self.routed_experts
        return self._opened if routed is None else {**self._opened, "routed_experts": routed.use}

    @property
    def routed_experts(self) -> ExpertRecord | None:
        """The choices of the tokens in the cache; None where they are not recorded."""
        return self.session.routed_experts if isinstance(self.session, RoutesExperts) else None

    def run(self, step: StepContext) -> Logits:
        return Logits(self.session.run(step.step), step, self.session.ops)

    def close(self) -> None:
        self.session.close()
