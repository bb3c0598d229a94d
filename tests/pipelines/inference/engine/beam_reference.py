"""Beam search written down as transformers has it: whole vocabularies, scores of -1e9 for what may not be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.backends.fake_decoder import fake_logits
from pipelines.wire.sampling_params import Beams

NEVER = -1e9


class Found(NamedTuple):
    """One answer of a search: `end` is the token that ended it, the last of `token_ids`."""

    token_ids: list[int]
    end: int | None


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    values = logits.astype(np.float64)
    values -= values.max(axis=1, keepdims=True)
    return values - np.log(np.exp(values).sum(axis=1, keepdims=True))


def search(
    prompt: list[int], beams: Beams, max_tokens: int, ends: frozenset[int], vocab_size: int
) -> list[Found]:
    """The answers to a prompt, best first, with the logits of a `FakeSession`."""
    width, penalty = beams.width, beams.length_penalty
    num_kept = max(2, 1 + len(ends)) * width
    running: list[tuple[float, list[int]]] = [(0.0, [])] + [(NEVER, [])] * (width - 1)
    finished: list[tuple[float, bool, list[int]]] = [(NEVER, False, [])] * width
    improvable = True
    for length in range(1, max_tokens + 1):
        contexts = [np.array(prompt + text, np.int64) for _, text in running]
        totals = log_softmax(fake_logits(contexts, vocab_size)) + [[score] for score, _ in running]
        kept = np.argsort(-totals.ravel(), kind="stable")[:num_kept]
        grown = [(totals.ravel()[at], running[at // vocab_size][1] + [int(at % vocab_size)]) for at in kept]
        hits = [length == max_tokens or text[-1] in ends for _, text in grown]
        lowered = [(score + NEVER * hit, text) for (score, text), hit in zip(grown, hits, strict=True)]
        running = sorted(lowered, key=lambda beam: -beam[0])[:width]
        new = [
            (score / length**penalty if hit and place < width else NEVER, hit and place < width, text)
            for place, ((score, text), hit) in enumerate(zip(grown, hits, strict=True))
        ]
        finished = sorted(finished + new, key=lambda beam: -beam[0])[:width]
        full = all(done for _, done, _ in finished)
        hypothetical = max_tokens if beams.early_stopping == "never" and penalty > 0 else length
        worst = finished[-1][0] if full else NEVER
        improvable = improvable and running[0][0] / hypothetical**penalty > worst
        if not improvable or (full and beams.early_stopping is True) or all(hits):
            break
    return [Found(text, text[-1] if text[-1] in ends else None) for _, _, text in finished]
