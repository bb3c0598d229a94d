"""Test cases of every kernel on random inputs: the device's results compared with numpy's.

A case knows a `Device` (`ops/cuda/device.py`) by its protocol, so that it runs over cupy on a GPU and over
a substitute elsewhere.  Seeds are fixed: the same sizes give the same inputs everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tools.lab.gpu_check.correctness.pooling_cases import pooling_cases
from tools.lab.gpu_check.correctness.recurrent_cases import recurrent_cases
from tools.lab.gpu_check.correctness.sampling_cases import (
    CHOICES,
    EDITS,
    check_choice,
    check_edit,
    check_logprobs,
    check_take,
    check_verified,
    odd_logits,
    random_logits,
)
from tools.lab.gpu_check.correctness.sizes import Size
from tools.lab.gpu_check.correctness.step_cases import (
    check_copies,
    check_step_inputs,
    check_swaps,
)


class Case(NamedTuple):
    """`check(device, size)` raises AssertionError when device and numpy differ."""

    name: str
    check: Callable[[Any, Size], None]


def _cases() -> Iterator[Case]:
    for name in EDITS:
        yield Case(name, lambda device, size, name=name: check_edit(name, device, size))
    yield Case("take", check_take)
    for name in CHOICES:
        yield Case(
            f"choose: {name}",
            lambda device, size, name=name: check_choice(name, random_logits(size, 7), device, size),
        )
    yield Case(
        "choose: greedy, odd rows",
        lambda device, size: check_choice("greedy", odd_logits(size, 7), device, size),
    )
    yield Case(
        "choose: temperature, odd rows",
        lambda device, size: check_choice("temperature", odd_logits(size, 7), device, size),
    )
    yield Case("choose: verified", check_verified)
    for k in (0, 1, 5, 20):
        yield Case(f"logprobs {k}", lambda device, size, k=k: check_logprobs(k, device, size))
    yield Case("step inputs: decoding", lambda device, size: check_step_inputs(True, 0, device, size))
    yield Case("step inputs: decoding, padded", lambda device, size: check_step_inputs(True, 5, device, size))
    yield Case("step inputs: mixed", lambda device, size: check_step_inputs(False, 0, device, size))
    yield Case("copy_blocks", check_copies)
    yield Case("swap", check_swaps)
    for name, check in (*pooling_cases(), *recurrent_cases()):
        yield Case(name, check)


CASES = tuple(_cases())
