"""The synthesizer node: sentences in phoneme ids → the outputs of a Piper voice, one run for each.

On the worker it submits tensors, in the engine host it makes the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from graphs.errors import listed
from graphs.node import BodyContract, FilePath, Node
from pipelines.inference.engine.batching.tensor_engine import TensorEngine
from pipelines.nodes.interface import Loading, Running
from pipelines.nodes.tensors.infer import Infer, start_engine
from pipelines.nodes.voice.voice_settings import VoiceSettings, read_voice_settings
from pipelines.values.node_values import Tensors, Tokens
from pipelines.values.stream_values import Series
from pipelines.values.tasks import SpeakInput

if TYPE_CHECKING:
    from pipelines.nodes.body_interface import Body

GIVEN = ("input", "input_lengths", "scales", "sid")
"""The tensors of a run, as Piper's exports name them; `sid` where the voice has several speakers."""


class Synthesizer(Node):
    """Runs a voice on one sentence after another, in threads of the engine host.

    A sentence is sent when the one before it is computed, so that requests take turns.
    """

    place = "engine"
    body = BodyContract(root="batch", gives=Tensors, result=Tensors)

    class Config(Infer.Config):
        settings: FilePath = Field(description="the .onnx.json of a Piper voice")

    def load(self, resources: Loading) -> None:
        self.address = resources.address
        self.settings: VoiceSettings = resources.shared(
            read_voice_settings, self.folder / self.config.settings
        )

    def run(self, call: Running, sentences: list[Tokens]) -> Series[Tensors]:
        return Series(
            [
                call.infer(self.address, self._tensors(each.ids, call.request), text_lengths=[len(each.ids)])
                for each in sentences
            ]
        )

    def start(self, body: Body) -> TensorEngine:
        """The engine around a loaded body.  Raises ValueError for a model that needs other tensors."""
        engine = start_engine(self.config, body)
        if others := [name for name in engine.inputs if name not in GIVEN]:
            raise ValueError(
                f"the model needs {listed(others)}, but a synthesizer gives {listed([*GIVEN])}; rename them "
                "with `inputs` of the model's line"
            )
        return engine

    def _tensors(self, ids: list[int], request: SpeakInput) -> Tensors:
        settings = self.settings
        found = Tensors(
            input=np.array([ids], np.int64),
            input_lengths=np.array([len(ids)], np.int64),
            scales=np.array([settings.noise, settings.length / request.speed, settings.noise_w], np.float32),
        )
        if settings.has_speakers:
            found["sid"] = np.array([settings.speakers[settings.voice(request.voice)]], np.int64)
        return found
