"""Braid's engine without server and wire, for `tools/lab/bench/child.py`; does not support grammars."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import ClassVar

from pipelines.gguf.convert import convert
from pipelines.inference.backends.openvino.open_decoder import open_decoder
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.wire.sampling_params import SamplingParams
from tools.lab.bench.base.load import Load, Request, Settings

STORED_STATES = 16
"""Rows for states of prefixes, beside those of sequences."""


class Engine:
    """Opens a GGUF file, or the OpenVINO model of a folder, as a graph without settings does."""

    activation_group: ClassVar[int | None] = None

    def __init__(self, path: Path, settings: Settings) -> None:
        options = DecoderSettings(
            kv_cache=settings.kv_cache, threads=settings.threads, activation_group=self.activation_group
        )
        self._scratch = tempfile.TemporaryDirectory()
        if path.is_file():
            convert(path, Path(self._scratch.name) / "model")
            session = open_decoder(Path(self._scratch.name) / "model" / "model.onnx", options)
        else:
            session = open_decoder(path / "openvino_model.xml", options)
        session.reserve(settings.max_step_tokens, settings.max_sequences)
        num_states = 2 * settings.max_sequences + STORED_STATES if session.shape.state_bytes else 0
        session.allocate(settings.num_blocks, num_states=num_states)
        while session.warm():  # as a server does before its first request
            pass

        def body(context: StepContext) -> Sampled:
            return sample(Logits(session.run(context.step), context))

        self._loop = GenerationEngine(
            StepBody(body),
            EngineSettings(max_sequences=settings.max_sequences, max_step_tokens=settings.max_step_tokens),
            session.shape,
            CacheSize(settings.num_blocks, num_states),
            frozenset(),
        )

    def submit(self, number: int, request: Request, load: Load) -> None:
        asked = {"temperature": 0.0, **load.sampling}
        params = SamplingParams(max_tokens=request.output_tokens, ignore_eos=True, **asked)
        self._loop.submit(number, GenerationRequest([request.prompt], params))

    def turn(self) -> list[tuple[int, int]]:
        return [(output.key, len(output.piece.token_ids)) for output in self._loop.step()]
