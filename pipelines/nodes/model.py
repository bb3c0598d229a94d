"""The model node: one exported decoder, run once per step.

Knows which engine opens which file; knows nothing of caches, batches or text.  Imported by workers too, to
check graphs, so an engine is imported only when a file is opened.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.backends.errors import EXPORT_ADVICE, ModelError
from pipelines.engine.feed import Logits, Step

if TYPE_CHECKING:
    from pipelines.backends.contract import DecoderSession
    from pipelines.build import Resources


class Model(Node):
    """Keys and values of the step's tokens into the cache, logits of the sampled positions out."""

    place = "step"
    session: DecoderSession

    class Config(NodeConfig):
        path: FilePath = Field(description="an exported decoder: openvino_model.xml")
        device: str = Field(
            default="cpu", pattern=r"^(cpu|gpu(\.\d+)?|fake)$", description="cpu, gpu (Intel) or fake (tests)"
        )
        kv_cache: Literal["f32", "f16", "bf16", "u8", "i8", "u4"] | None = Field(
            default=None, description="element type of the cache; default: the device's choice"
        )
        precision: Literal["f32", "bf16", "f16"] | None = Field(
            default=None, description="type of activations; default: the device's choice"
        )
        threads: int | None = Field(default=None, ge=1, description="default: every core")

    def load(self, resources: Resources) -> None:
        self.session = resources.shared(open_session, self.folder / self.config.path, self.config)

    def run(self, step: Step) -> Logits:
        return Logits(self.session.run(step), step, self.session.ops)

    def close(self) -> None:
        self.session.close()


def open_session(path: Path, config: Model.Config) -> DecoderSession:
    """The session for a file, by its kind and device.  Raises `ModelError`."""
    kind = "fake" if config.device == "fake" else path.suffix
    if kind not in OPENERS:
        kinds = ", ".join(one for one in OPENERS if one.startswith("."))
        raise ModelError(f"{path.name}: decoders are opened from {kinds}. {EXPORT_ADVICE}")
    return OPENERS[kind](path, config)


def _open_openvino(path: Path, config: Model.Config) -> DecoderSession:
    from pipelines.backends.openvino.session import OpenVINOSession, OpenVINOSettings

    settings = OpenVINOSettings(config.device, config.kv_cache, config.precision, config.threads)
    return OpenVINOSession(path, settings)


def _open_fake(path: Path, config: Model.Config) -> DecoderSession:
    from pipelines.backends.fake import FakeSession

    unused = [name for name in ("kv_cache", "precision", "threads") if getattr(config, name) is not None]
    if unused:
        raise ModelError(f"device fake has no {', '.join(unused)}.")
    return FakeSession(**json.loads(path.read_text()))


OPENERS: dict[str, Callable[[Path, Model.Config], DecoderSession]] = {
    ".xml": _open_openvino,
    "fake": _open_fake,
}
"""File suffix (or the device `fake`) → what opens it."""
