"""Measures Braid's speed on the GPU: decoding at several batch sizes against the memory bound, and a long
prompt.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from pipelines.inference.engine.generation_engine import GenerationEngine
from tools.lab.gpu_check.base.setting import Setting
from tools.lab.gpu_check.base.tracing import device_trace
from tools.lab.gpu_check.packs.driving import Decoding, EngineLimits, decode, prefill_s, start_decoding
from tools.lab.gpu_check.packs.models import SHAPES, Shape, random_model, random_prompts
from tools.lab.gpu_check.packs.sessions import ModelWithWeights, cuda_session, weights_of

BATCHES = (1, 8, 32, 128)
CONTEXT, NEW_TOKENS = 512, 64
COUNTED_STEPS = 12  # of runs whose speed is not measured
LONG_PROMPT, LONG_STEP = 8192, 4096  # tokens
PROFILED_STEPS = 8
TOP_KERNELS = 12
PROFILED = (1, 32)  # sequences
WITHOUT_GRAPHS = (1, 32)
HALF = 2  # bytes of float16


class Measured(NamedTuple):
    """One batch size.  Milliseconds are medians over the decode steps.

    `floor_ms` is what reading all weights and all keys and values once takes at the measured bandwidth.
    """

    sequences: int
    graphs: bool
    tokens_s: float
    step_ms: float
    floor_ms: float
    host_ms: float
    run_ms: float
    sample_ms: float
    model_ms: float  # the session's run with a wait for the device behind it
    prompt_tokens_s: float
    whole_tokens_s: float  # output tokens over the whole time, prompts included

    @property
    def of_floor(self) -> float:
        return self.floor_ms / self.step_ms


def check_bandwidth(setting: Setting) -> None:
    """Measure copying and reading of device memory, in GB/s."""
    read, copy = bandwidth()
    setting.note("read GB/s", read)
    setting.note("copy GB/s, read and written", copy)
    setting.say(f"read {read:.0f} GB/s, copy {copy:.0f} GB/s")


def bandwidth(gib: float = 4.0) -> tuple[float, float]:
    """GB/s of a read (a sum) and of a copy (bytes read and written), the best of five."""
    import torch

    source = torch.ones(int(gib * 2**30) // 4, device="cuda")
    target = torch.empty_like(source)
    read = min(_seconds(lambda: source.sum()) for _ in range(5))
    copy = min(_seconds(lambda: target.copy_(source)) for _ in range(5))
    return source.nbytes / read / 1e9, 2 * source.nbytes / copy / 1e9


def _seconds(call: Any) -> float:
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def check_06b(setting: Setting) -> None:
    _check("qwen3-0.6b", setting)


def check_8b(setting: Setting) -> None:
    _check("qwen3-8b", setting)


def _check(name: str, setting: Setting) -> None:
    """Measure with CUDA graphs at every batch size, then without at two of them."""
    import torch

    shape = SHAPES[name]
    batches = BATCHES[::2] if setting.quick else BATCHES
    gb_s = max(bandwidth())
    setting.note("bandwidth GB/s", gb_s)
    torch.cuda.empty_cache()
    begin = time.perf_counter()
    model = random_model(shape, "cuda", "float16")
    with weights_of(name, model, setting) as written:
        del model
        torch.cuda.empty_cache()
        setting.say(f"random weights made and written in {time.perf_counter() - begin:.0f} s")
        with _session(written, max(batches), True, setting) as session:
            for batch in batches:
                measure(session, shape, batch, gb_s, True, setting)
            prefill(session, shape, setting)
            profile(session, shape, "profile {}", setting)
        with _session(written, max(batches), False, setting) as session:
            for batch in WITHOUT_GRAPHS:
                measure(session, shape, batch, gb_s, False, setting)
            profile(session, shape, "profile {} without graphs", setting)


@contextlib.contextmanager
def _session(written: ModelWithWeights, most: int, graphs: bool, setting: Setting) -> Iterator[Any]:
    begin = time.perf_counter()
    with cuda_session(written, graphs=graphs, max_tokens=LONG_STEP, max_sequences=most) as session:
        session.allocate(_blocks(most, session.shape.block_tokens))
        setting.say(f"session opened in {time.perf_counter() - begin:.0f} s: {dict(session.describe())}")
        yield session


def _blocks(batch: int, block_tokens: int) -> int:
    """Blocks for the largest batch, and for the long prompt."""
    per_sequence = -(-(CONTEXT + NEW_TOKENS) // block_tokens) + 1
    return max(batch * per_sequence, -(-LONG_PROMPT // block_tokens) + 2)


def measure(session: Any, shape: Shape, batch: int, gb_s: float, graphs: bool, setting: Setting) -> None:
    room = _room(session, batch)
    few = -(-batch * CONTEXT // (LONG_STEP - batch)) + COUNTED_STEPS  # the first decode while the last wait
    decode(session, room, random_prompts(shape, [CONTEXT] * batch, seed=1), few)
    prompts = random_prompts(shape, [CONTEXT] * batch, seed=2)
    decoding = decode(session, room, prompts, NEW_TOKENS)
    waiting = decode(session, room, prompts, few, wait=_wait)
    measured = figures(shape, decoding, waiting, batch, gb_s, graphs)
    name = f"decode {batch}" if graphs else f"decode {batch} without graphs"
    setting.note(name, {**measured._asdict(), "of_floor": measured.of_floor})
    setting.say(words(measured))


def _room(session: Any, batch: int) -> EngineLimits:
    num_blocks = _blocks(batch, session.shape.block_tokens)
    return EngineLimits(num_blocks, max_sequences=batch, max_step_tokens=LONG_STEP)


def _wait() -> None:
    import torch

    torch.cuda.synchronize()


def figures(
    shape: Shape, decoding: Decoding, waiting: Decoding, batch: int, gb_s: float, graphs: bool
) -> Measured:
    step_s = statistics.median(decoding.step_s)
    context = CONTEXT + NEW_TOKENS / 2
    read = shape.matrix_elements + shape.kv_elements(int(batch * context))
    return Measured(
        sequences=batch,
        graphs=graphs,
        tokens_s=batch / step_s,
        step_ms=step_s * 1e3,
        floor_ms=read * HALF / gb_s / 1e6,
        host_ms=statistics.median(decoding.host_s) * 1e3,
        run_ms=statistics.median(decoding.run_s) * 1e3,
        sample_ms=statistics.median(decoding.sample_s) * 1e3,
        model_ms=statistics.median(waiting.run_s) * 1e3,
        prompt_tokens_s=batch * CONTEXT / decoding.prompt_s,
        whole_tokens_s=batch * NEW_TOKENS / decoding.whole_s,
    )


def words(measured: Measured) -> str:
    return (
        f"{measured.sequences} sequences{'' if measured.graphs else ' without graphs'}: "
        f"{measured.tokens_s:.0f} tokens/s, step {measured.step_ms:.2f} ms, floor {measured.floor_ms:.2f} ms "
        f"({measured.of_floor:.2f} of it); engine {measured.host_ms:.2f}, model {measured.model_ms:.2f}, "
        f"sampling and wait {measured.sample_ms:.2f} ms; prompts {measured.prompt_tokens_s:.0f} tokens/s"
    )


def profile(session: Any, shape: Shape, name: str, setting: Setting) -> None:
    """Measure the time of a decode step by kernel, and the idle time of the device."""
    for batch in PROFILED:
        prompts = random_prompts(shape, [CONTEXT] * batch, seed=3)
        engine = start_decoding(session, _room(session, batch), prompts, NEW_TOKENS)
        trace = device_trace(functools.partial(_steps, engine))
        share, launches = trace.idle_share, trace.launches / PROFILED_STEPS
        kernels = {
            kernel: {"launches": count / PROFILED_STEPS, "us": time_us / PROFILED_STEPS}
            for kernel, (count, time_us) in list(trace.kernels.items())[:TOP_KERNELS]
        }
        profiled = {"idle share": share, "launches": launches, "kernels": kernels}
        setting.note(name.format(batch), profiled)
        setting.say(f"{name.format(batch)}: device idle {share:.1%} of a step, {launches:.0f} kernels a step")
        for kernel, facts in kernels.items():
            setting.say(f"  {facts['us']:8.1f} µs  {facts['launches']:5.0f} x  {kernel}")


def _steps(made: GenerationEngine) -> None:
    for _ in range(PROFILED_STEPS):
        made.step()
    _wait()


def prefill(session: Any, shape: Shape, setting: Setting) -> None:
    """Measure one long prompt in chunks, after a warm-up."""
    prompts = random_prompts(shape, [LONG_PROMPT] * 2, seed=4)
    seconds = [prefill_s(session, _room(session, 1), prompt) for prompt in prompts][-1]
    flops = 2 * shape.matrix_elements * LONG_PROMPT + shape.attention_flops(LONG_PROMPT)
    speed, tflops = LONG_PROMPT / seconds, flops / seconds / 1e12
    setting.note("prefill", {"tokens": LONG_PROMPT, "chunk": LONG_STEP, "tokens_s": speed, "tflops": tflops})
    setting.say(f"prompt of {LONG_PROMPT}: {speed:.0f} tokens/s, {tflops:.0f} TFLOP/s")
