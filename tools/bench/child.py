"""An engine without HTTP, in a process of its own: reads a load from stdin, writes its timings to stdout.

`python -m tools.bench.child genai|engine MODEL_FOLDER SETTINGS`.  The first line out says that the model is
loaded; then a JSON line in (`Load`) is answered by a JSON line out (`Timings`).  Knows nothing of HTTP.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tools.bench.load import Load, Settings, Timings

Submit = Callable[[int, list[int], int], None]
Turn = Callable[[], list[tuple[int, int]]]
"""`submit(number, prompt, num_tokens)`; a turn gives (number, how many tokens came) pairs."""


def genai(folder: Path, settings: Settings) -> tuple[Submit, Turn]:
    """openvino_genai's C++ continuous batching, stepped from Python."""
    import openvino as ov
    import openvino_genai

    config = openvino_genai.SchedulerConfig()
    config.num_kv_blocks = settings.num_blocks
    config.max_num_batched_tokens = settings.max_step_tokens
    config.max_num_seqs = settings.max_sequences
    config.dynamic_split_fuse = True
    config.enable_prefix_caching = False
    properties = {"KV_CACHE_PRECISION": settings.kv_cache}
    pipe = openvino_genai.ContinuousBatchingPipeline(str(folder), config, "CPU", properties, {})
    live: dict[int, Any] = {}

    def submit(number: int, prompt: list[int], num_tokens: int) -> None:
        sampling = openvino_genai.GenerationConfig(
            max_new_tokens=num_tokens, ignore_eos=True, do_sample=False
        )
        ids = ov.Tensor(np.array([prompt], np.int64))
        live[number] = pipe.add_request(number, ids, sampling)

    def turn() -> list[tuple[int, int]]:
        pipe.step()
        came = []
        for number, handle in list(live.items()):
            if handle.can_read():
                came.append((number, sum(len(one.generated_ids) for one in handle.read().values())))
            if handle.get_status() != openvino_genai.GenerationStatus.RUNNING and not handle.can_read():
                del live[number]
        return came

    return submit, turn


def engine(folder: Path, settings: Settings) -> tuple[Submit, Turn]:
    """Braid's engine without the wire and the server: scheduler, OpenVINO session, sampler."""
    from pipelines.backends.openvino.session import OpenVINOSession, OpenVINOSettings
    from pipelines.engine.feed import Logits, Sampled, Step
    from pipelines.engine.loop import Engine, EngineSettings
    from pipelines.sampling.params import SamplingParams
    from pipelines.sampling.stages import sample

    session = OpenVINOSession(folder / "openvino_model.xml", OpenVINOSettings(kv_cache=settings.kv_cache))
    session.allocate(settings.num_blocks)

    def body(step: Step) -> Sampled:
        return sample(Logits(session.run(step), step))

    made = Engine(
        body,
        EngineSettings(
            max_sequences=settings.max_sequences,
            max_step_tokens=settings.max_step_tokens,
            reuse_prefixes=False,
        ),
        settings.num_blocks,
        session.block_tokens,
        session.vocab_size,
        session.max_context,
        frozenset(),
    )

    def submit(number: int, prompt: list[int], num_tokens: int) -> None:
        made.submit(number, [prompt], SamplingParams(max_tokens=num_tokens, temperature=0.0, ignore_eos=True))

    def turn() -> list[tuple[int, int]]:
        return [(output.key, len(output.token_ids)) for output in made.step()]

    return submit, turn


ENGINES = {"genai": genai, "engine": engine}


def run(load: Load, submit: Submit, turn: Turn) -> Timings:
    """Keep `load.concurrency` requests in flight until all are done."""
    waiting = list(enumerate(load.prompts))
    left: dict[int, int] = {}
    started: dict[int, float] = {}
    times: dict[int, list[float]] = {number: [] for number, _ in waiting}
    begin = time.perf_counter()
    while waiting or left:
        while waiting and len(left) < load.concurrency:
            number, prompt = waiting.pop(0)
            left[number], started[number] = load.output_tokens, time.perf_counter()
            submit(number, prompt, load.output_tokens)
        for number, count in turn():
            times[number].append(time.perf_counter() - started[number])
            left[number] -= count
            if left[number] <= 0:
                del left[number]
    wall_s = time.perf_counter() - begin
    return Timings(wall_s, load.output_tokens * len(load.prompts), list(times.values()))


def main() -> None:
    kind, folder, settings = sys.argv[1:]
    submit, turn = ENGINES[kind](Path(folder), Settings(**json.loads(settings)))
    print("ready", flush=True)
    for line in sys.stdin:
        print(run(Load.read(line), submit, turn).write(), flush=True)


if __name__ == "__main__":
    main()
