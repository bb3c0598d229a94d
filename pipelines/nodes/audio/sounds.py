"""The sounds node: the sounds of a conversation → what the model's encoder reads of them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.base.errors import RequestError
from pipelines.nodes.audio.audio_family import AudioFamily, read_audio
from pipelines.nodes.audio.decoding import RATE, AudioLimits, AudioTooLong, decode_audio
from pipelines.nodes.audio.pyav import import_av
from pipelines.nodes.images.data_urls import read_data_url
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
            sound = self._decoded(sound_input, seconds)
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

    def _decoded(self, sound_input: SoundInput, left_s: float) -> NDArray[np.float32]:
        """The samples of a sound that may have `left_s` seconds.  Raises RequestError."""
        data = sound_input.data
        if data is None:
            data = read_data_url(sound_input.url, self.max_bytes, sound_input.where)
        try:
            return decode_audio(data, AudioLimits(max_seconds=left_s))
        except AudioTooLong:
            most = self.config.max_seconds
            raise RequestError(
                f"`{sound_input.where}`: the sounds of a request may have {most:g} seconds together",
                sound_input.where,
            ) from None
        except RequestError as error:
            raise RequestError(f"`{sound_input.where}`: {error.message}", sound_input.where) from None


def _family(config: Path, settings: Path) -> AudioFamily:
    return read_audio(config, settings)
