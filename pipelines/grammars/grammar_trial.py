"""Tries a grammar in a process of its own (`base.bounded_process`): what compiling and following cost.

What costs too much here is never compiled elsewhere.
"""

from __future__ import annotations

import random
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer

from pipelines.base.garbage_collection import release_free_pages
from pipelines.grammars.compiler import faults_of, limits

MAX_COMPILE_S = 1.0
MAX_MASK_S = 0.1
NUM_SAMPLES = 3
NUM_STEPS = 40
"""Tokens of one sample of the grammar's language, each chosen at random among those allowed."""


@lru_cache(2)
def _tokenizer(path: str) -> LLTokenizer:
    return LLTokenizer(Path(path).read_text())


def outcome(job: dict[str, Any]) -> dict[str, str]:
    """What is wrong with a grammar: `fault` where it is no grammar, `cost` where it costs too much."""
    found = _outcome(job["grammar"], job["tokenizer"])
    release_free_pages()
    return found


def _outcome(grammar: str, tokenizer: str | None) -> dict[str, str]:
    if fault := faults_of(grammar):
        return {"fault": fault}
    if tokenizer is None or not Path(tokenizer).exists():
        return {}
    began_s = time.process_time()
    matcher = LLMatcher(_tokenizer(tokenizer), grammar, log_level=0, limits=limits())
    took_s = time.process_time() - began_s
    if matcher.is_error():
        return {"fault": f"Grammar error: {matcher.get_error()}"}
    if took_s > MAX_COMPILE_S:
        return {"cost": f"it takes {took_s:.1f} s to compile; at most {MAX_COMPILE_S:g} s are allowed"}
    slowest_s = max(_sampled(matcher, random.Random(seed)) for seed in range(NUM_SAMPLES))
    if slowest_s > MAX_MASK_S:
        return {
            "cost": f"the tokens that may come next take {slowest_s:.2f} s to find; at most {MAX_MASK_S:g} s "
            "are allowed"
        }
    return {}


def _sampled(matcher: LLMatcher, chance: random.Random) -> float:
    """Sample some tokens of a grammar; the most seconds that one of its masks took."""
    matcher, slowest_s = matcher.deep_copy(), 0.0
    for _ in range(NUM_STEPS):
        began_s = time.process_time()
        bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        slowest_s = max(slowest_s, time.process_time() - began_s)
        allowed = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
        if slowest_s > MAX_MASK_S or not len(allowed) or matcher.is_stopped():
            break
        if not matcher.consume_token(int(chance.choice(allowed))):
            break
    return slowest_s
