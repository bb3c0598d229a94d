"""The checks, in the order they run: names, time limits, and where their code is."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import NamedTuple

from tools.lab.gpu_check.base.setting import Setting


class Check(NamedTuple):
    """`function` is "module:name" in this package: it takes a Setting, and raises Failed or Absent.

    `limit_s` is for the check alone; a part's checks together usually take half of nine minutes.
    """

    name: str
    part: int
    limit_s: int
    function: str
    about: str

    def load(self) -> Callable[[Setting], None]:
        module, name = self.function.split(":")
        found: Callable[[Setting], None] = getattr(importlib.import_module(f"{__package__}.{module}"), name)
        return found


CHECKS = (
    Check("environment", 1, 60, "environment:check_environment", "GPU, driver, versions, the op's schema"),
    Check("kernels", 1, 120, "correctness.kernels:check_kernels", "every CUDA kernel against numpy"),
    Check("attention", 1, 100, "correctness.attention:check_attention", "PagedAttention nodes against numpy"),
    Check(
        "end_to_end", 1, 150, "correctness.end_to_end:check_end_to_end", "a random Qwen3 against transformers"
    ),
    Check(
        "mixture",
        1,
        90,
        "correctness.end_to_end:check_mixture",
        "a random Qwen3 mixture against transformers",
    ),
    Check("hybrids", 1, 100, "correctness.hybrids:check_hybrids", "decoders with recurrent states, GGUF too"),
    Check("sinks", 1, 60, "correctness.hybrids:check_sinks", "gpt-oss: sinks, windows, MXFP4; GGUF too"),
    Check(
        "adapters", 1, 100, "correctness.adapters:check_adapters", "mixed steps against merged transformers"
    ),
    Check("encoders", 1, 60, "correctness.encoders:check_encoders", "encoders and poolings against the CPU"),
    Check(
        "kernel_times",
        1,
        60,
        "correctness.kernels:check_kernel_times",
        "microseconds and GB/s of every kernel",
    ),
    Check("sanitizer", 1, 200, "correctness.sanitizer:check_sanitizer", "compute-sanitizer over the kernels"),
    Check(
        "bandwidth", 2, 30, "speed.bench:check_bandwidth", "the GPU's memory bandwidth, for the floors below"
    ),
    Check("decode_8b", 2, 200, "speed.bench:check_8b", "8B shape: decode and prefill"),
    Check(
        "transformers_8b", 2, 120, "speed.peer:check_8b", "the same with transformers' continuous batching"
    ),
    Check("decode_0.6b", 2, 100, "speed.bench:check_06b", "Qwen3-0.6B's shape: decode and prefill"),
    Check(
        "transformers_0.6b", 2, 60, "speed.peer:check_06b", "the same with transformers' continuous batching"
    ),
    Check(
        "adapter_speed", 2, 100, "speed.adapters:check_adapter_speed", "decode steps with 0, 1, 4 adapters"
    ),
    Check(
        "encoder_speed", 2, 60, "speed.encoders:check_encoder_speed", "MiniLM's shape: texts/s and pooling"
    ),
)
