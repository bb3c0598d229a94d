"""Measures what adapters cost in a decode step, beside a graph without room for them."""

from __future__ import annotations

import statistics
from typing import Any

from pipelines.adapters.weights import AdapterRoom
from tools.lab.gpu_check.base.setting import Setting
from tools.lab.gpu_check.packs.driving import EngineLimits, decode
from tools.lab.gpu_check.packs.models import SHAPES, WITH_ADAPTERS, Shape, random_model, random_prompts
from tools.lab.gpu_check.packs.random_adapters import random_adapter
from tools.lab.gpu_check.packs.sessions import cuda_session, weights_of

NAME = "qwen3-0.6b"
BATCHES = (1, 16, 64)
MIXED = (0, 1, 4)
"""Numbers of adapters in a step."""
RANK, CONTEXT, NEW_TOKENS, STEP = 16, 256, 64, 2048
ROOM = AdapterRoom(frozenset(), max(MIXED), RANK)


def check_adapter_speed(setting: Setting) -> None:
    """Measure milliseconds of a decode step with CUDA graphs.  Fails only when a step fails."""
    import torch

    shape = SHAPES[NAME]
    model = random_model(shape, "cuda", "float16")
    batches = BATCHES[:2] if setting.quick else BATCHES
    times_of: dict[int, dict[str, float]] = {batch: {} for batch in batches}
    for name, room in ((NAME, None), (NAME + WITH_ADAPTERS, ROOM)):
        with weights_of(name, model, setting) as written:
            torch.cuda.empty_cache()
            sizes = {"max_tokens": STEP, "max_sequences": max(batches)}
            with cuda_session(written, graphs=True, room=room, **sizes) as session:
                session.allocate(max(batches) * _blocks(session))
                for batch in batches:
                    times_of[batch] |= _times(session, shape, batch, room is not None)
    for batch, times in times_of.items():
        setting.note(f"decode {batch}", times)
        setting.say(f"{batch} sequences: " + ", ".join(f"{name} {ms:.2f} ms" for name, ms in times.items()))


def _blocks(session: Any) -> int:
    return -(-(CONTEXT + NEW_TOKENS) // int(session.shape.block_tokens)) + 1


def _times(session: Any, shape: Shape, batch: int, has_room: bool) -> dict[str, float]:
    """Words → milliseconds, medians over the decode steps of a second run, after graphs were captured."""
    limits = EngineLimits(batch * _blocks(session), batch, STEP)
    times = {}
    for number in MIXED if has_room else (0,):
        if number > batch:
            continue
        adapters = {
            adapter: random_adapter(session.linears, RANK, adapter) for adapter in range(1, number + 1)
        }
        for seed in (1, 2):
            prompts = random_prompts(shape, [CONTEXT] * batch, seed)
            decoded = decode(session, limits, prompts, NEW_TOKENS, adapters=adapters)
        name = f"{number} adapters" if has_room else "without the line"
        times[name] = statistics.median(decoded.step_s) * 1e3
    return times
