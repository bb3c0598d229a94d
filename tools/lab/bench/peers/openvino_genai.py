"""openvino_genai's C++ continuous batching, stepped from Python, for `tools/lab/bench/child.py`.

Runs in its own environment; knows nothing of the other systems.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import openvino as ov
import openvino_genai

from tools.lab.bench.base.load import Load, Request, Settings

RUNNING = openvino_genai.GenerationStatus.RUNNING


class Engine:
    draft_tokens: ClassVar[dict[str, Any]] = {}
    """What its GenerationConfig says of drafted tokens."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        config = openvino_genai.SchedulerConfig()
        config.num_kv_blocks = settings.num_blocks
        config.max_num_batched_tokens = settings.max_step_tokens
        config.max_num_seqs = settings.max_sequences
        config.dynamic_split_fuse = True
        config.enable_prefix_caching = True
        properties = {
            "KV_CACHE_PRECISION": settings.kv_cache,
            "INFERENCE_NUM_THREADS": settings.threads,
            **self.properties(folder),
        }
        self._pipe = openvino_genai.ContinuousBatchingPipeline(str(folder), config, "CPU", properties, {})
        self._live: dict[int, Any] = {}

    def properties(self, folder: Path) -> dict[str, Any]:
        """Further properties of the pipeline."""
        return {}

    def submit(self, number: int, request: Request, load: Load) -> None:
        options: dict[str, Any] = dict(load.sampling)
        if load.schema is not None:
            schema = openvino_genai.StructuredOutputConfig(json_schema=json.dumps(load.schema))
            options["structured_output_config"] = schema
        config = openvino_genai.GenerationConfig(
            max_new_tokens=request.output_tokens,
            ignore_eos=True,
            do_sample=bool(load.sampling),
            **self.draft_tokens,
            **options,
        )
        prompt = ov.Tensor(np.array([request.prompt], np.int64))
        self._live[number] = self._pipe.add_request(number, prompt, config)

    def turn(self) -> list[tuple[int, int]]:
        self._pipe.step()
        came = []
        for number, handle in list(self._live.items()):
            if handle.can_read():
                came.append((number, sum(len(one.generated_ids) for one in handle.read().values())))
            if handle.get_status() != RUNNING and not handle.can_read():
                del self._live[number]
        return came
