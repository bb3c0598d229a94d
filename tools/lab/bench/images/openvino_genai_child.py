"""openvino_genai's continuous batching over images, on pipes.  Runs in its own environment.

Argument: the folder of the model.  Each line is the fields of `Questions`; the answer has its `seconds`.
"""

from __future__ import annotations

import json
import sys
import time

import openvino as ov
import openvino_genai

from tools.lab.bench.images.load import Questions, pixels, question

CACHE_GB = 2
MAX_STEP_TOKENS = 1024


def main() -> None:
    config = openvino_genai.SchedulerConfig()
    config.cache_size = CACHE_GB
    config.max_num_batched_tokens = MAX_STEP_TOKENS
    config.enable_prefix_caching = True
    f32 = {"INFERENCE_PRECISION_HINT": "f32"}
    pipeline = openvino_genai.ContinuousBatchingPipeline(sys.argv[1], config, "CPU", f32, {})
    print("{}", flush=True)
    for line in sys.stdin:
        print(json.dumps({"seconds": _answer(pipeline, Questions(**json.loads(line)))}), flush=True)


def _answer(pipeline: openvino_genai.ContinuousBatchingPipeline, questions: Questions) -> float:
    images = [[ov.Tensor(pixels(seed)[None])] for seed in questions.images]
    options = openvino_genai.GenerationConfig(
        max_new_tokens=questions.num_tokens, ignore_eos=True, do_sample=False
    )
    texts = [question(seed) for seed in questions.images]
    begin = time.perf_counter()
    pipeline.generate(texts, images=images, generation_config=[options] * len(texts))
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
