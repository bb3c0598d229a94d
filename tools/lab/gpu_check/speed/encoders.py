"""Measures an encoder's speed on the GPU in float32 and float16, with pooling on device and host."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops import pooling
from pipelines.inference.contracts.encoder_batch import TokenBatch
from tools.lab.gpu_check.base.setting import Figures, Setting
from tools.lab.gpu_check.correctness.encoders import open_on_gpu, random_batch
from tools.lab.gpu_check.packs.encoder_folders import encoder_file
from tools.lab.gpu_check.packs.encoder_models import MEASURED

NUM_TEXTS, FEW_TEXTS = 8192, 1024
MAX_BATCH_TOKENS = 8192
MEDIAN_TOKENS, SPREAD, SHORTEST, LONGEST = 24, 0.8, 4, 256
"""Lengths of texts like those of questions and passages: their logarithms are normal."""
ROUNDS = 5

Way = Callable[[Any, TokenBatch], NDArray[np.float32]]
"""(session, batch) → vectors of its texts, in host memory."""


def pooled_on_device(session: Any, batch: TokenBatch) -> NDArray[np.float32]:
    ops = session.ops
    pooled = ops.pool(session.run(batch), batch.lengths, "mean")
    vectors: NDArray[np.float32] = ops.fetch(ops.normalize(pooled, batch.activate))
    return vectors


def pooled_on_host(session: Any, batch: TokenBatch) -> NDArray[np.float32]:
    """All hidden states are copied to the host and pooled there."""
    hidden = session.ops.fetch(session.run(batch))
    return pooling.normalize(pooling.pool(hidden, batch.lengths, "mean"), batch.activate)


def copied(session: Any, batch: TokenBatch) -> NDArray[np.float32]:
    """All hidden states are copied to the host without pooling."""
    hidden: NDArray[np.float32] = session.ops.fetch(session.run(batch))
    return hidden


WAYS: dict[str, Way] = {"device": pooled_on_device, "host": pooled_on_host, "copied": copied}


def check_encoder_speed(setting: Setting) -> None:
    """Measure texts/s for MiniLM's shape.  Fails only when a call fails."""
    for name in MEASURED:
        with encoder_file(name, setting) as path:
            session = open_on_gpu(path)
            session.warm()
            speed = measure(session, FEW_TEXTS if setting.quick else NUM_TEXTS)
            session.close()
        setting.note(name, speed)
        setting.say(
            f"{name}: {speed['device_texts_s']:.0f} texts/s ({speed['device_tokens_s']:.0f} tokens/s), "
            f"pooled on the host {speed['host_texts_s']:.0f}, copied alone {speed['copied_texts_s']:.0f}"
        )


def measure(session: Any, num_texts: int, rounds: int = ROUNDS) -> Figures:
    """Texts/s and tokens/s of every method, medians of alternating rounds, and the share of padding."""
    batches = natural_batches(num_texts, session.vocab_size, session.max_tokens)
    tokens = sum(int(batch.lengths.sum()) for batch in batches)
    padded = sum(batch.ids.size for batch in batches)
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds + 1):  # the first is not counted
        for name, way in WAYS.items():
            seconds[name].append(_seconds(way, session, batches))
    speed: Figures = {"texts": num_texts, "tokens": tokens, "padding": 1 - tokens / padded}
    for name, times in seconds.items():
        median = float(np.median(times[1:]))
        speed |= {f"{name}_texts_s": num_texts / median, f"{name}_tokens_s": tokens / median}
    return speed


def natural_batches(num_texts: int, vocab_size: int, max_tokens: int) -> list[TokenBatch]:
    """Texts of all lengths, the longest first, in batches of at most `MAX_BATCH_TOKENS` with padding."""
    random = np.random.default_rng(1)
    drawn = random.lognormal(np.log(MEDIAN_TOKENS), SPREAD, num_texts)
    lengths = np.sort(np.clip(drawn.astype(int), SHORTEST, min(LONGEST, max_tokens)))[::-1].tolist()
    batches = []
    while lengths:
        count = max(1, MAX_BATCH_TOKENS // lengths[0])
        batches.append(random_batch(lengths[:count], vocab_size, seed=len(batches)))
        del lengths[:count]
    return batches


def _seconds(way: Way, session: Any, batches: list[TokenBatch]) -> float:
    begin = time.perf_counter()
    for batch in batches:
        way(session, batch)
    return time.perf_counter() - begin
