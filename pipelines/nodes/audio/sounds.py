"""The audio node: the sounds of a conversation → what the model's encoder reads of them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.base.errors import RequestError
from pipelines.nodes.audio.audio_family import AudioFamily, read_audio
from pipelines.nodes.audio.decoding import RATE, decoded_sound
from pipelines.nodes.audio.pyav import import_av
from pipelines.nodes.interface import Loading, MarksMedia, Planning, Running
from pipelines.nodes.request_plan import RequestPlan
from pipelines.values.node_values import Sounds
from pipelines.values.tasks import GenerationInput, SoundInput

HEARD = "sounds"
"""The field of a request that this node handles."""


class ReadAudio(Node, Planning, MarksMedia):
    """Decodes the sounds of the messages, and computes log-mel spectrograms of their windows."""

    class Config(NodeConfig):
        model: FilePath = Field(description="config.json of the model")
        settings: FilePath = Field(description="preprocessor_config.json of the model")
        max_sounds: int = Field(default=8, ge=1, description="sounds of one request; more are a 400")
        max_mb: float = Field(default=25, gt=0, description="MB of a sound file; a larger one is a 400")
        max_seconds: float = Field(
            default=600, gt=0, description="seconds of all sounds of a request together; more are a 400"
        )

    def load(self, resources: Loading) -> None:
        """Raises ValueError without PyAV, and for a model that reads sounds in another way."""
        try:
            import_av("cannot read sounds")
        except RequestError as error:
            raise ValueError(error.message) from error
        paths = self.folder / self.config.model, self.folder / self.config.settings
        self.family: AudioFamily = resources.shared(_family, *paths)

    @property
    def max_bytes(self) -> int:
        """The most bytes of one file."""
        return int(self.config.max_mb * 1e6)

    def plan(self, request: GenerationInput) -> RequestPlan:
        return RequestPlan(handled=frozenset({HEARD}))

    def media_marks(self) -> Sequence[str]:
        return self.family.marks

    def run(self, call: Running, request: GenerationInput) -> Sounds:
        return self.read(request.sounds)

    def read(self, inputs: Sequence[SoundInput]) -> Sounds:
        """Raises RequestError, which names the field at fault."""
        most, seconds = self.config.max_sounds, self.config.max_seconds
        if len(inputs) > most:
            raise RequestError(f"At most {most} audio(s) may be provided in one request.", inputs[most].where)
        windows, texts = [], []
        for sound_input in inputs:
            sound = decoded_sound(sound_input, self.max_bytes, seconds, self.config.max_seconds)
            seconds -= len(sound) / RATE
            read = self.family.read(sound)
            windows += list(read.windows)
            texts.append(read.text)
        return Sounds(
            np.stack(windows) if windows else np.empty(0, np.float32),
            [self.family.num_tokens] * len(windows),
            [blake2b(window.tobytes(), digest_size=16).digest() for window in windows],
            self.family.token_id,
            self.family.marks,
            texts,
        )


def _family(config: Path, settings: Path) -> AudioFamily:
    return read_audio(config, settings)
