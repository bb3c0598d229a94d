"""What is sampled at each place of a run follows the model's own distribution, however the draft tokens were
made.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from breadth import after
from sampled_runs import Given, counted_of, sample_runs

from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.wire.sampling_params import SamplingParams

VOCAB, NUM_DRAFT_TOKENS, NUM_SEQUENCES, NUM_STEPS = 6, 2, 500, 40
MODEL = np.random.default_rng(20).uniform(-1, 1, (VOCAB, VOCAB)).astype(np.float32)
"""Logits of the next token, by the last one."""
Z = 5.0
"""Of a normal deviate, which a chi-square statistic exceeds with a probability below 1e-6."""

Speculator = Callable[[list[int]], list[int]]


def lookup(text: list[int]) -> list[int]:
    """What followed the last token when it came before."""
    before = [i for i in range(len(text) - 1) if text[i] == text[-1]]
    return text[before[-1] + 1 :][:NUM_DRAFT_TOKENS] if before else []


def likeliest(text: list[int]) -> list[int]:
    """A draft that knows the model well, and never draft tokens what is unlikely."""
    draft_tokens = [text[-1]]
    for _ in range(NUM_DRAFT_TOKENS):
        draft_tokens.append(int(MODEL[draft_tokens[-1]].argmax()))
    return draft_tokens[1:]


def blind(text: list[int]) -> list[int]:
    return Random(bytes(text)).choices(range(VOCAB), k=NUM_DRAFT_TOKENS)


def written(
    draft_token: Speculator, params: dict[str, float]
) -> tuple[list[list[int]], Counter[tuple[int, int, int]]]:
    """The texts of many sequences, and how often a token came at a place of its run after another token."""
    rows = SamplingSlots(NUM_SEQUENCES, VOCAB)
    for row in range(NUM_SEQUENCES):
        rows.set(row, SamplingParams(seed=row, **params), [0], [], 0, [])
    texts: list[list[int]] = [[0] for _ in range(NUM_SEQUENCES)]
    seen: Counter[tuple[int, int, int]] = Counter()
    for _ in range(NUM_STEPS):
        runs = []
        for row, text in enumerate(texts):
            draft_tokens = draft_token(text)
            runs.append(
                Given(row, draft_tokens, MODEL[[text[-1], *draft_tokens]], [None] * (1 + len(draft_tokens)))
            )
        for row, (counted, _) in enumerate(counted_of(sample_runs(rows, runs))):
            for place, token_id in enumerate(counted):
                seen[place, texts[row][-1], token_id] += 1
                texts[row].append(token_id)
                rows.append(row, token_id)
    return texts, seen


def deviate(seen: Counter[tuple[int, int, int]], place: int, chances: np.ndarray) -> float:
    """Chi-square over all last tokens that came often, as a normal deviate (Wilson and Hilferty, 1931)."""
    statistic, degrees = 0.0, 0
    for last in range(VOCAB):
        counted = np.array([seen[place, last, token_id] for token_id in range(VOCAB)])
        possible = chances[last] > 0
        assert not counted[~possible].any()
        expected = counted.sum() * chances[last][possible]
        if expected.min() > 5:
            statistic += float(((counted[possible] - expected) ** 2 / expected).sum())
            degrees += int(possible.sum()) - 1
    assert degrees >= 5
    spread = 2 / (9 * degrees)
    return ((statistic / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


def chances_of(temperature: float = 1.0, top_k: int = VOCAB) -> np.ndarray:
    weights = np.exp(MODEL.astype(np.float64) / temperature)
    weights[weights < np.sort(weights, axis=1)[:, [-top_k]]] = 0
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("draft_token", [lookup, likeliest, blind])
@pytest.mark.parametrize("params", after(1, [{"temperature": 1.3, "top_k": 4}, {}, {"temperature": 0.7}]))
def test_every_place_of_a_run_has_the_distribution_of_the_model(draft_token, params):
    _, seen = written(draft_token, params)
    for place in range(1 + NUM_DRAFT_TOKENS):
        assert deviate(seen, place, chances_of(**params)) < Z
        assert deviate(seen, place, chances_of(temperature=9)) > Z  # another distribution would be found out


@pytest.mark.parametrize("draft_token", after(1, [likeliest, lookup, blind]))
def test_guesses_change_how_far_a_step_goes_and_no_token(draft_token):
    with_draft_tokens, _ = written(draft_token, {})
    without, _ = written(lambda text: [], {})
    assert sum(map(len, with_draft_tokens)) > 1.1 * sum(map(len, without))
    for one, other in zip(with_draft_tokens, without, strict=True):
        assert one[: len(other)] == other
