"""Where a step's time goes inside a decoder on OpenVINO: its operators, by the device's own counters.

Compiles the model of a graph with counters on, in this process; asks no server.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.open_decoder import settings_of
from pipelines.inference.backends.openvino.paging.step_inputs import StepInputs
from pipelines.inference.contracts.step import Step
from pipelines.loading.load import graphs_of
from pipelines.repository.model_folders import open_folder
from tools.lab.profile_step.operators import Operators, operator_name, operator_rows


@dataclass(frozen=True)
class CountingSettings(OpenVINOSettings):
    """The settings of a graph's line, with the device's counters enabled."""

    def properties(self) -> dict[str, Any]:
        return super().properties() | {"PERF_COUNT": True}


class CountingSession(OpenVINOSession):
    """A session that counts its runs: the device reports an average over all of them."""

    num_runs = 0

    def _infer(self, inputs: StepInputs) -> NDArray[np.float32]:
        self.num_runs += 1
        return super()._infer(inputs)

    def counters(self) -> dict[str, tuple[str, float]]:
        """Node name → (operator name, its seconds in all runs so far)."""
        assert self._requests is not None
        infos = self._requests.last.get_profiling_info()
        return {
            info.node_name: (
                operator_name(info.node_type, info.node_name),
                self.num_runs * info.real_time.total_seconds(),
            )
            for info in infos
        }


class NoDecoder(Exception):
    """The graph has no model line that OpenVINO runs."""


def open_counted(folder: Path) -> CountingSession:
    """The decoder of the graph in `folder`, compiled with counters.  Raises NoDecoder."""
    model = open_folder(folder, folder.name).opened()
    graph = graphs_of([model])(model.name)
    lines = [line for binding in (graph.bindings if graph else ()) for line in binding.body]
    models = [line for line in lines if line.type_name == "model" and line.config.engine != "onnxruntime"]
    if not models or models[-1].config.device != "cpu":
        raise NoDecoder(f"{folder}: no model line that runs on OpenVINO")
    config = models[-1].config
    settings = CountingSettings(**vars(settings_of(config.settings())))
    return CountingSession(model.path / config.path, settings)


def count(
    session: CountingSession, sequences: int, context: int, seconds: float, tokens: int = 1
) -> Operators:
    """Measure steps of `sequences` with `context` tokens each, over an empty cache: `tokens` more of each."""
    blocks = -(-(context + tokens) // session.shape.block_tokens)
    session.allocate(sequences * blocks)
    step = _step(sequences, context, blocks, tokens)
    session.run(step)
    before, num_before = session.counters(), session.num_runs
    begin_s = time.perf_counter()
    while time.perf_counter() < begin_s + seconds or session.num_runs == num_before:
        session.run(step)
    wall_s, steps = time.perf_counter() - begin_s, session.num_runs - num_before
    spent = {
        name: (what, (total - before[name][1]) / steps) for name, (what, total) in session.counters().items()
    }
    rows = operator_rows(spent.values())
    return Operators(sequences, context, tokens, steps, 1e3 * wall_s / steps, rows)


def _step(sequences: int, context: int, blocks: int, tokens: int) -> Step:
    """A step with `tokens` of each sequence after `context` others; logits of the last."""
    rows = np.arange(sequences, dtype=np.int32)
    return Step(
        token_ids=np.ones(sequences * tokens, np.int64),
        positions=np.tile(np.arange(context, context + tokens, dtype=np.int64), sequences),
        starts=np.arange(sequences + 1, dtype=np.int32) * tokens,
        num_past=np.full(sequences, context, np.int32),
        block_table=np.arange(sequences * blocks, dtype=np.int32).reshape(sequences, blocks),
        num_blocks=np.full(sequences, blocks, np.int32),
        max_context=context + tokens,
        logit_indices=(rows.astype(np.int64) + 1) * tokens - 1,
        logit_slots=rows,
        copies=np.empty((0, 2), np.int32),
    )
