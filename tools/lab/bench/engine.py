"""Braid's engine without server and wire, for `tools/lab/bench/child.py`; does not support grammars."""

from __future__ import annotations

from pathlib import Path

from pipelines.host.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.host.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.host.contracts.step import Sampled
from pipelines.host.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.host.engine.interface.engine_contract import GenerationRequest
from pipelines.host.engine.kv_cache.cache_size import CacheSize
from pipelines.host.sampling.stages import sample
from pipelines.host.sampling.step_context import Logits, StepContext
from pipelines.wire.sampling_params import SamplingParams
from tools.lab.bench.base.load import Load, Request, Settings


class Engine:
    def __init__(self, folder: Path, settings: Settings) -> None:
        options = OpenVINOSettings(kv_cache=settings.kv_cache)
        session = OpenVINOSession(folder / "openvino_model.xml", options)
        session.allocate(settings.num_blocks)

        def body(context: StepContext) -> Sampled:
            return sample(Logits(session.run(context.step), context))

        self._loop = GenerationEngine(
            StepBody(body),
            EngineSettings(max_sequences=settings.max_sequences, max_step_tokens=settings.max_step_tokens),
            session.shape,
            CacheSize(settings.num_blocks),
            frozenset(),
        )

    def submit(self, number: int, request: Request, load: Load) -> None:
        asked = {"temperature": 0.0, **load.sampling}
        params = SamplingParams(max_tokens=request.output_tokens, ignore_eos=True, **asked)
        self._loop.submit(number, GenerationRequest([request.prompt], params))

    def turn(self) -> list[tuple[int, int]]:
        return [(output.key, len(output.piece.token_ids)) for output in self._loop.step()]
