"""Measures transformers' continuous batching on the same shapes: `model.generate_batch`, paged attention.

Its interface differs between 4.57 and 5; both are supported, and a failure states its reason.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import time
from collections.abc import Iterator
from typing import Any

from tools.lab.gpu_check.base.setting import Absent, Setting
from tools.lab.gpu_check.packs.models import SHAPES, random_model, random_prompts
from tools.lab.gpu_check.speed.bench import BATCHES, CONTEXT, NEW_TOKENS

ATTENTIONS = {
    4: ("paged_attention", "sdpa_paged", "eager_paged"),
    5: ("paged|flash_attention_3", "paged|flash_attention_2", "paged|sdpa", "paged|eager"),
}
"""By transformers' major version, the fastest first; the first that runs is measured."""
MEMORY_SHARE = 0.6  # of what is free, for its cache


def check_06b(setting: Setting) -> None:
    _check("qwen3-0.6b", setting)


def check_8b(setting: Setting) -> None:
    _check("qwen3-8b", setting)


def _check(name: str, setting: Setting) -> None:
    import transformers

    logging.getLogger("ContinuousBatchingLogger").setLevel(logging.ERROR)
    shape = SHAPES[name]
    model = random_model(shape, "cuda", "float16")
    major = int(transformers.__version__.split(".")[0])
    failures = []
    for attention in ATTENTIONS[min(max(major, 4), 5)]:
        try:
            model.set_attn_implementation(attention)
            _generate(model, random_prompts(shape, [CONTEXT], seed=0), 4)
        except Exception as error:  # no flash attention here, or a bug of its own: the next may run
            first_line = next(iter(str(error).strip().splitlines()), "")[:200]
            failures.append(f"{attention}: {type(error).__name__}: {first_line}")
            setting.say(failures[-1])
            continue
        setting.note("attention", attention)
        setting.note("failures", failures)
        for batch in sorted(
            BATCHES[::2] if setting.quick else BATCHES, key=lambda batch_size: batch_size != 32
        ):
            _measure(model, shape, batch, attention, setting)
        return
    setting.note("failures", failures)
    raise Absent("transformers' continuous batching runs with no attention: " + "; ".join(failures))


def _measure(model: Any, shape: Any, batch: int, attention: str, setting: Setting) -> None:
    """Whole runs of NEW_TOKENS and of one token: their difference is decoding."""
    prompts = random_prompts(shape, [CONTEXT] * batch, seed=2)
    with _retained_manager(model, prompts) as options:
        whole, first = (_timed(model, prompts, tokens, options) for tokens in (NEW_TOKENS, 1))
    decode_s = (whole - first) / (NEW_TOKENS - 1)
    speed = {
        "whole_tokens_s": batch * NEW_TOKENS / whole,
        "tokens_s": batch / decode_s if decode_s > 0 else None,
        "prompt_tokens_s": batch * CONTEXT / first,
    }
    setting.note(f"decode {batch}", speed)
    setting.say(
        f"{batch} sequences ({attention}): {speed['whole_tokens_s']:.0f} tokens/s with prompts, decoding "
        + (f"{speed['tokens_s']:.0f} tokens/s" if speed["tokens_s"] else "not to be distinguished")
    )


@contextlib.contextmanager
def _retained_manager(model: Any, prompts: list[list[int]]) -> Iterator[dict[str, Any]]:
    """Reuse its manager between runs in version 5, so that its warm-up is not measured."""
    if "persistent_manager" not in inspect.signature(model.generate_batch).parameters:
        _generate(model, prompts, 4)
        yield {}
        return
    _generate(model, prompts, NEW_TOKENS, persistent_manager=True)
    try:
        yield {"persistent_manager": True}
    finally:
        model.destroy_cached_continuous_batching_manager()


def _timed(model: Any, prompts: list[list[int]], num_tokens: int, options: dict[str, Any]) -> float:
    begin = time.perf_counter()
    _generate(model, prompts, num_tokens, **options)
    return time.perf_counter() - begin


def _generate(model: Any, prompts: list[list[int]], num_tokens: int, **others: Any) -> None:
    """Generate the tokens.  Raises RuntimeError when some are missing; transformers only logs failures."""
    from transformers import GenerationConfig

    config = GenerationConfig(
        max_new_tokens=num_tokens, do_sample=False, use_cache=True, eos_token_id=-1, pad_token_id=0
    )
    outputs = model.generate_batch(
        inputs=prompts, generation_config=config, progress_bar=False, **_settings(model, config), **others
    )
    counts = [len(output.generated_tokens) for output in outputs.values()]
    if len(counts) != len(prompts) or min(counts) < num_tokens:
        errors = {str(output.error) for output in outputs.values() if getattr(output, "error", None)}
        raise RuntimeError(
            f"{len(counts)} of {len(prompts)} answers of {counts[:3]} tokens; {errors or 'silent'}"
        )


def _settings(model: Any, config: Any) -> dict[str, Any]:
    """Version 5 would take nine tenths of the memory for its cache and draws it from a config of its own."""
    if "continuous_batching_config" not in inspect.signature(model.generate_batch).parameters:
        return {}
    from transformers.generation.configuration_utils import ContinuousBatchingConfig

    return {
        "continuous_batching_config": ContinuousBatchingConfig(
            max_memory_percent=MEMORY_SHARE, allow_block_sharing=False
        )
    }
