"""llama.cpp's samplers beside its own loops, written out here as that server has them; and their stages."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ops import numpy_ops
from pipelines.inference.sampling.llama_samplers import (
    dry_penalty,
    likeliest_first,
    mirostat_1,
    mirostat_2,
    nucleus,
    probabilities,
    repeat_lengths,
    typical,
    within_sigma,
    without_top_choices,
)
from pipelines.inference.sampling.llama_stages import apply_dry, apply_llama_samplers
from pipelines.inference.sampling.logit_edits import RowEdits, has_edits
from pipelines.requests.generation.completion import CompletionRequest
from pipelines.requests.generation.sampling import sampling
from pipelines.wire.sampling_params import LlamaSamplers, SamplingParams

ROWS = [np.random.default_rng(seed).normal(0, 3, 200).astype(np.float32) for seed in range(12)]


def softmax(logits):
    """(id, probability), the likeliest first."""
    order = sorted(range(len(logits)), key=lambda i: -logits[i])
    weights = [math.exp(float(logits[i]) - float(max(logits))) for i in order]
    return [(i, weight / sum(weights)) for i, weight in zip(order, weights, strict=True)]


@pytest.mark.parametrize("mass", [0.05, 0.4, 0.9])
@pytest.mark.parametrize("row", range(len(ROWS)))
def test_typical(row, mass):
    pairs = softmax(ROWS[row])
    entropy = -sum(p * math.log(p) for _, p in pairs)
    shifted = sorted(pairs, key=lambda pair: abs(-math.log(pair[1]) - entropy))
    total, size = 0.0, len(shifted)
    for at, (_, p) in enumerate(shifted):
        total += p
        if total > mass:
            size = at + 1
            break
    kept = typical(ROWS[row], likeliest_first(ROWS[row]), mass)
    assert {*kept.tolist()} == {i for i, _ in shifted[:size]}


@pytest.mark.parametrize("number", [0.5, 1.5, 3.0])
@pytest.mark.parametrize("row", range(len(ROWS)))
def test_sigma(row, number):
    logits = ROWS[row].astype(np.float64)
    mean = sum(logits) / len(logits)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in logits) / len(logits))
    wanted = {i for i, x in enumerate(logits) if x >= max(logits) - number * deviation}
    assert {*within_sigma(ROWS[row], likeliest_first(ROWS[row]), number).tolist()} == wanted


@pytest.mark.parametrize("threshold", [0.02, 0.1, 0.4, 0.6])
@pytest.mark.parametrize("row", range(len(ROWS)))
def test_xtc(row, threshold):
    pairs, last = softmax(ROWS[row]), 0
    for at, (_, p) in enumerate(pairs):
        if p < threshold:
            break
        last = at
    wanted = [i for i, _ in (pairs[last:] if threshold <= 0.5 and last > 0 else pairs)]
    assert without_top_choices(ROWS[row], likeliest_first(ROWS[row]), threshold).tolist() == wanted


def test_nucleus_is_top_p_then_min_p():
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))
    ids = likeliest_first(logits)
    assert nucleus(logits, ids, 0.8, 0.0).tolist() == [0, 1]
    assert nucleus(logits, ids, 0.81, 0.0).tolist() == [0, 1, 2]
    assert nucleus(logits, ids, 1.0, 0.4).tolist() == [0, 1]


def z_repeats(tokens, breakers, allowed):
    """llama.cpp's search: the longest repetition that each token would go on with."""
    backwards, kept = tokens[::-1], {}
    limit = next((i for i, token in enumerate(backwards) if token in breakers), len(tokens))
    for start in range(1, len(backwards)):
        length = 0
        while start + length < len(backwards) and backwards[length] == backwards[start + length]:
            length += 1
        length = min(length, limit)
        if length >= allowed:
            token = backwards[start - 1]
            kept[token] = max(kept.get(token, 0), length)
    return kept


@pytest.mark.parametrize("seed", range(20))
def test_repetitions(seed):
    generator = np.random.default_rng(seed)
    tokens = generator.integers(0, 4, 40).tolist()
    breakers = {3} if seed % 2 else set()
    assert repeat_lengths(tokens, breakers, 2) == z_repeats(tokens, breakers, 2)


def test_repetitions_of_one_token():
    tokens = [7] * 512
    assert repeat_lengths(tokens, (), 2) == z_repeats(tokens, (), 2) == {7: 511}


@pytest.mark.parametrize("surprise", [5.0, 1200.0, 1e308, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("chances", [[1.0], [0.25] * 4, [0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
def test_mirostat_of_any_surprise_leaves_a_token(chances, surprise):
    for size in (mirostat_1(np.array(chances), 49152, surprise), mirostat_2(np.array(chances), surprise)):
        assert 1 <= size <= len(chances)


def test_the_penalty_grows_and_is_finite():
    assert dry_penalty(2, 0.8, 1.75, 2) == pytest.approx(0.8)
    assert dry_penalty(5, 0.8, 1.75, 2) == pytest.approx(0.8 * 1.75**3)
    assert math.isfinite(np.float32(dry_penalty(10**6, 0.8, 1.75, 2)))


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_mirostat(row):
    pairs, surprise = softmax(ROWS[row]), 4.0
    chances = np.array([p for _, p in pairs])
    below = next((i for i, p in enumerate(chances) if -math.log2(p) > surprise), len(chances))
    assert mirostat_2(chances, surprise) == max(below, 1)
    number, ties = 0.0, 0.0
    for i in range(99):
        place, ratio = math.log((i + 2) / (i + 1)), math.log(chances[i] / chances[i + 1])
        number, ties = number + place * ratio, ties + place * place
    slope = number / ties
    rest = slope - 1
    k = ((rest * 2**surprise) / (1 - len(chances) ** -rest)) ** (1 / slope)
    assert mirostat_1(chances, len(chances), surprise) == max(int(min(k, len(chances))), 1)


def edits(prompt=(), **given):
    return RowEdits(SamplingParams(seed=7, llama=LlamaSamplers(**given)), prompt, [], [])


def test_dry_is_a_penalty_until_a_breaker():
    values = np.zeros((1, 5), np.float32)
    apply_dry(numpy_ops, values, [(0, edits([0, 1, 2, 0, 1], dry_multiplier=1.0, dry_base=2.0))])
    assert values[0].tolist() == [0, 0, -1, 0, 0]
    values = np.zeros((1, 5), np.float32)
    row = edits([0, 1, 2, 0, 1], dry_multiplier=1.0, dry_breaker_ids=[0])
    apply_dry(numpy_ops, values, [(0, row)])
    assert not values.any()


def test_xtc_leaves_out_the_likeliest_as_often_as_it_should():
    row, left_out = edits(xtc_probability=0.5, xtc_threshold=0.1), 0
    for _ in range(400):
        values = np.log(np.array([[0.5, 0.3, 0.15, 0.05]], np.float32))
        apply_llama_samplers(numpy_ops, values, [(0, row)])
        gone = np.isneginf(values[0]).tolist()
        assert gone in ([True, True, False, False], [False] * 4)
        left_out += gone[0]
        row.append(2)
    assert 150 < left_out < 250


def test_mirostat_comes_nearer_to_its_surprise():
    row = edits(mirostat=2, mirostat_tau=2.0, mirostat_eta=0.2)
    generator, surprises = np.random.default_rng(1), []
    for _ in range(600):
        values = ROWS[0][None].copy()
        apply_llama_samplers(numpy_ops, values, [(0, row)])
        ids = likeliest_first(values[0])
        chances = probabilities(values[0], ids)
        at = generator.choice(len(ids), p=chances)
        surprises.append(-math.log2(chances[at]))
        row.append(int(ids[at]))
    assert np.mean(surprises[300:]) == pytest.approx(2.0, abs=0.35)


def test_fields_reach_the_stages_and_cost_nothing_when_neutral():
    request = CompletionRequest(
        model="m", prompt="a", typical_p=0.5, dry_multiplier=0.8, dry_penalty_last_n=-1
    )
    params = SamplingParams(**sampling(request))
    assert (params.llama.typical_p, params.llama.dry_last_n) == (0.5, 512)
    assert has_edits(params)
    neutral = CompletionRequest(model="m", prompt="a", typical_p=1, top_n_sigma=-1, mirostat=0, dry_base=2)
    assert "llama" not in sampling(neutral)
    assert sampling(CompletionRequest(model="m", prompt="a", mirostat=2))["num_draft_tokens"] == 0


def test_the_likeliest_ids_are_in_the_order_of_a_stable_sort():
    row = np.random.default_rng(3).normal(0, 2, 5000).astype(np.float32).round(1)
    row[::7], row[1::7], row[2::7], row[3] = -np.inf, 0.0, -0.0, np.inf
    order = np.argsort(-row, kind="stable")
    assert likeliest_first(row).tolist() == order[: np.count_nonzero(row > -np.inf)].tolist()
