"""The waveform node: what a voice gives for a sentence → samples."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.base.errors import EngineError
from pipelines.nodes.interface import Loading, Running
from pipelines.nodes.voice.voice_settings import VoiceSettings, read_voice_settings
from pipelines.values.node_values import SpokenSound, Tensors
from pipelines.values.stream_values import Series

FULL_SCALE = 32_767
SILENT = 1e-8


class Waveform(Node):
    """The samples of each sentence, its loudest at full scale, as Piper does."""

    class Config(NodeConfig):
        settings: FilePath = Field(description="the .onnx.json of a Piper voice")
        output: str = Field(default="output", description="name of the model's tensor with the samples")

    def load(self, resources: Loading) -> None:
        self.settings: VoiceSettings = resources.shared(
            read_voice_settings, self.folder / self.config.settings
        )

    def run(self, call: Running, spoken: Series[Tensors]) -> Series[SpokenSound]:
        return spoken.map(self._sound)

    def _sound(self, tensors: Tensors) -> SpokenSound:
        """Raises EngineError where the model gives no samples."""
        name = self.config.output
        if name not in tensors:
            raise EngineError(f"the model gives no tensor `{name}`, but {', '.join(tensors)}")
        samples = np.asarray(tensors[name], np.float32).reshape(-1)
        loudest = float(np.abs(samples).max(initial=0.0))
        if not np.isfinite(loudest):
            raise EngineError("the model gives samples that are no numbers")
        scaled = samples / loudest if loudest >= SILENT else np.zeros_like(samples)
        return SpokenSound((scaled * FULL_SCALE).astype(np.int16), self.settings.rate)
