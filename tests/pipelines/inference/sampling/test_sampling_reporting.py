"""Log-probabilities that are told of chosen tokens and of prompts, against log_softmax in float64."""

from __future__ import annotations

import numpy as np
import pytest

from ops import numpy_ops
from pipelines.inference.contracts.step import ScoredTokens, Step
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.wire.sampling_params import SamplingParams, check_ids

VOCAB = 40
LOWEST = float(np.finfo(np.float32).min)


def step(params: list[SamplingParams], scored: dict[int, int]) -> StepContext:
    """One row for each of `params`, then one that scores each key of `scored`, with so many alternatives."""
    rows = SamplingSlots(len(params), VOCAB)
    for row, settings_of_row in enumerate(params):
        rows.set(row, settings_of_row, [1, 2], [], 0, [])
    none, num_rows = np.zeros(0, np.int64), len(params)
    step = Step(
        token_ids=none,
        positions=none,
        starts=none.astype(np.int32),
        num_past=none.astype(np.int32),
        block_table=np.zeros((0, 0), np.int32),
        num_blocks=none.astype(np.int32),
        max_context=0,
        logit_indices=np.arange(num_rows + len(scored)),
        logit_slots=np.arange(num_rows, dtype=np.int32),
        copies=np.zeros((0, 2), np.int32),
        scored=ScoredTokens(np.array(list(scored), np.int64), np.array(list(scored.values()), np.int64)),
    )
    return StepContext(step, rows)


def logits_of(num_rows: int) -> np.ndarray:
    return (np.random.default_rng(5).standard_normal((num_rows, VOCAB)) * 2).astype(np.float32)


def log_softmax(row: np.ndarray) -> np.ndarray:
    wide = row.astype(np.float64)
    return wide - (wide.max() + np.log(np.exp(wide - wide.max()).sum()))


def told(**params: object):
    """What is told of one chosen token, and the row of logits it was chosen from."""
    logits = logits_of(1)
    wanted = SamplingParams(**{"temperature": 0.0, "logprobs": 3, **params})  # type: ignore[arg-type]
    sampled = sample(Logits(logits.copy(), step([wanted], {})))
    return sampled.logprobs[0], int(sampled.token_ids[0]), logits[0]


def test_named_ids_stand_in_the_place_of_the_likeliest_in_their_order():
    found, token, row = told(logprob_token_ids=[9, 3, 30])
    expected = log_softmax(row)
    assert found.top_ids == [9, 3, 30]
    np.testing.assert_allclose(found.top_logprobs, expected[[9, 3, 30]], atol=1e-5)
    assert found.logprob == pytest.approx(expected[token], abs=1e-5)


def test_named_ids_are_told_beside_rows_that_name_none():
    logits = logits_of(3)
    kinds = [
        SamplingParams(temperature=0, logprobs=2),
        SamplingParams(temperature=0, logprobs=0, logprob_token_ids=[7]),
        SamplingParams(temperature=0, logprobs=0, logprob_token_ids=[8, 1], temp_scaled_logprobs=True),
    ]
    logprobs = sample(Logits(logits.copy(), step(kinds, {}))).logprobs
    assert [reported.top_ids for reported in logprobs[1:]] == [[7], [8, 1]]
    assert logprobs[0].top_ids == np.argsort(-logits[0])[:2].tolist()
    for row_logprobs, row in zip(logprobs, logits, strict=True):
        np.testing.assert_allclose(
            row_logprobs.top_logprobs, log_softmax(row)[row_logprobs.top_ids], atol=1e-5
        )


def test_an_id_that_the_model_does_not_have_is_refused():
    from pipelines.base.errors import RequestError

    with pytest.raises(RequestError, match=r"\[40\] in logprob_token_ids") as refusal:
        check_ids(SamplingParams(logprob_token_ids=[3, 40]), VOCAB)
    assert refusal.value.field == "logprob_token_ids"


@pytest.mark.parametrize("temperature", [0.5, 1.7])
def test_scaled_logprobs_are_those_of_the_logits_after_temperature(temperature):
    found, token, row = told(temperature=temperature, temp_scaled_logprobs=True, seed=4)
    expected = log_softmax(row / np.float32(temperature))
    assert found.logprob == pytest.approx(expected[token], abs=1e-5)
    np.testing.assert_allclose(found.top_logprobs, np.sort(expected)[::-1][:3], atol=1e-5)


def test_a_greedy_request_has_no_temperature_to_scale_by():
    found, token, row = told(temp_scaled_logprobs=True)
    assert found.logprob == pytest.approx(log_softmax(row)[token], abs=1e-5)


@pytest.mark.parametrize("scaled", [False, True])
def test_normalised_logprobs_are_those_of_the_nucleus_alone(scaled):
    logprobs, top_p = VOCAB, 0.8
    logprobs_told, token, row = told(
        temperature=0.7,
        top_p=top_p,
        top_p_normalized_logprobs=True,
        temp_scaled_logprobs=scaled,
        logprobs=logprobs,
        seed=3,
    )
    chances = np.exp(log_softmax(row / np.float32(0.7 if scaled else 1)))
    order = np.argsort(-chances)
    size = int(np.count_nonzero(np.cumsum(chances[order]) < top_p)) + 1
    expected = np.log(chances[order[:size]] / chances[order[:size]].sum())
    assert logprobs_told.top_ids[:size] == order[:size].tolist()
    np.testing.assert_allclose(logprobs_told.top_logprobs[:size], expected, atol=1e-5)
    assert logprobs_told.top_logprobs[size:] == [LOWEST] * (VOCAB - size)
    assert logprobs_told.logprob == logprobs_told.top_logprobs[logprobs_told.top_ids.index(token)]


def test_a_nucleus_of_one_token_is_certain():
    found, token, row = told(temperature=1.0, top_p=0.0, top_p_normalized_logprobs=True)
    assert (found.logprob, token) == (0.0, int(row.argmax()))


def test_without_top_p_nothing_is_normalised():
    found, token, row = told(top_p_normalized_logprobs=True)
    assert found.logprob == pytest.approx(log_softmax(row)[token], abs=1e-5)


def test_penalties_change_no_logprob_of_any_kind():
    found, token, row = told(
        temperature=0.5, logit_bias={5: 100.0}, temp_scaled_logprobs=True, logprob_token_ids=[5]
    )
    expected = log_softmax(row / np.float32(0.5))
    assert token == 5
    assert found.logprob == found.top_logprobs[0] == pytest.approx(expected[5], abs=1e-5)


def test_scores_of_prompts_stand_behind_the_sampled_rows_and_are_not_edited():
    logits = logits_of(4)
    params = [SamplingParams(temperature=0, logit_bias={5: 100.0}), SamplingParams(temperature=0, logprobs=1)]
    found = sample(Logits(logits.copy(), step(params, {11: 2, 5: 0})))
    assert len(found.token_ids) == 2
    assert found.token_ids[0] == 5
    expected = [log_softmax(row) for row in logits[2:]]
    assert [one.logprob for one in found.scores] == pytest.approx([expected[0][11], expected[1][5]], abs=1e-5)
    assert [len(one.top_ids) for one in found.scores] == [2, 0]
    assert found.scores[0].top_ids == np.argsort(-logits[2])[:2].tolist()


def test_a_row_that_asks_nothing_is_not_copied(monkeypatch):
    copied: list[str] = []
    for name in ("take", "fetch"):
        monkeypatch.setattr(numpy_ops, name, lambda *args, name=name: copied.append(name))
    params = [SamplingParams(temperature=0, logprobs=1), SamplingParams(temperature=0, logit_bias={1: 2.0})]
    sample(Logits(logits_of(3), step(params, {11: 2})))
    assert copied == []
