"""Rows behind draft tokens give what they give one token at a time, whatever is asked of them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from host_device import HostDevice
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_runs import Given, counted_of, one_by_one, sample_runs

from ops.cuda.sampling import CudaSamplingOps
from pipelines.inference.contracts.step import ScoredTokens
from pipelines.inference.sampling.logit_edits import RowEdits
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.sampling_params import SamplingParams

pytestmark = pytest.mark.slow

VOCAB = 40
ENDS = [39, 38]
IDS = st.integers(0, VOCAB - 1)
FEW = st.integers(0, 3)
PARAMS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.7, 1.0]),
    top_k=st.sampled_from([0, 0, 3, 20]),
    top_p=st.sampled_from([1.0, 1.0, 0.8]),
    min_p=st.sampled_from([0.0, 0.0, 0.05]),
    min_tokens=st.integers(0, 9),
    repetition_penalty=st.sampled_from([1.0, 1.0, 0.8, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.0, 1.5]),
    frequency_penalty=st.sampled_from([0.0, 0.0, -0.5, 0.3]),
    logit_bias=st.dictionaries(IDS, st.sampled_from([-100.0, -1.0, 2.5]), max_size=3),
    allowed_token_ids=st.none() | st.none() | st.lists(IDS, min_size=1, max_size=8),
    bad_words_ids=st.lists(st.lists(FEW, min_size=1, max_size=4), max_size=4),
    seed=st.integers(0, 2**63),
    logprobs=st.sampled_from([None, None, 0, 1, 5]),
    logprob_token_ids=st.just([]) | st.lists(IDS, min_size=1, max_size=3, unique=True),
    temp_scaled_logprobs=st.booleans(),
    top_p_normalized_logprobs=st.booleans(),
)
BATCHES = st.lists(PARAMS, min_size=1, max_size=4)
SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def device() -> HostDevice:
    return HostDevice()


def rows_of(params: list[SamplingParams]) -> SamplingSlots:
    rows = SamplingSlots(len(params) + 2, VOCAB)
    for row, one in enumerate(params):
        rows.set(row + 1, one, [row, 7, 1], [2, 1], row % 2, ENDS)
    return rows


def random_run(random: np.random.Generator, row: int, params: SamplingParams, rows: SamplingSlots) -> Given:
    """Draft tokens that are right, partly right, or wrong; few ids are likely, so that tokens repeat."""
    num_draft_tokens = int(random.integers(0, 6))
    logits = (random.standard_normal((1 + num_draft_tokens, VOCAB)) * 2).astype(np.float32)
    logits[:, :4] += 3
    words = -(-VOCAB // 32)
    masks = [
        None if random.random() < 0.6 else random.integers(0, 2**32, words, np.uint32) | np.uint32(1)
        for _ in logits
    ]
    wanted = truth(rows, row, logits, masks)
    num_right = int(random.integers(0, num_draft_tokens + 1))
    draft_tokens = [*wanted[:num_right], *random.integers(0, VOCAB, num_draft_tokens - num_right).tolist()]
    return Given(row, draft_tokens, logits, masks)


def truth(rows: SamplingSlots, row: int, logits: np.ndarray, masks: list[np.ndarray | None]) -> list[int]:
    """What would be chosen if every draft token were accepted."""
    alone, chosen = pickle.loads(pickle.dumps(rows)), []
    for one, bits in zip(logits, masks, strict=True):
        chosen += one_by_one(alone, Given(row, [], one[None], [bits])).token_ids
    return chosen


def check_rounds(params: list[SamplingParams], seed: int, num_rounds: int, **kind) -> None:
    random, ours, others = np.random.default_rng(seed), rows_of(params), rows_of(params)
    for _ in range(num_rounds):
        order = random.permutation(len(params)).tolist()
        runs = [random_run(random, i + 1, params[i], ours) for i in order]
        before = pickle.dumps(ours)
        sampled = sample_runs(ours, runs, **kind)
        assert pickle.dumps(ours) == before  # what is only drafted leaves no trace
        assert sampled.num_drafted.tolist() == [len(run.draft_tokens) for run in runs]
        counted_runs = counted_of(sampled)
        assert counted_runs == [one_by_one(others, run, **kind) for run in runs]
        for run, counted_run in zip(runs, counted_runs, strict=True):
            for token_id in counted_run.token_ids:
                ours.append(run.row, token_id)


@settings(max_examples=8, deadline=None)
@given(BATCHES, SEEDS)
def test_runs_of_any_parameters_are_what_their_rows_give_one_by_one(params, seed):
    check_rounds(params, seed, 3)


@pytest.mark.breadth
@settings(max_examples=300, deadline=None)
@given(BATCHES, SEEDS)
def test_runs_of_more_parameters_are_what_their_rows_give_one_by_one(params, seed):
    check_rounds(params, seed, 3)


@settings(max_examples=2, deadline=None)
@given(BATCHES, SEEDS)
def test_the_same_on_a_device(device, params, seed):
    check_rounds(params, seed, 2, ops=CudaSamplingOps(device), upload=device.upload)


@given(
    PARAMS,
    st.lists(FEW, max_size=9),
    st.lists(IDS, max_size=70),
    st.lists(IDS | FEW, min_size=1, max_size=6),
)
def test_edits_after_guesses_are_those_of_a_sequence_that_has_said_them(params, prompt, output, draft_tokens):
    edits = RowEdits(params, prompt, output, ENDS)
    before = pickle.dumps(edits)
    found = edits.after(draft_tokens)
    assert pickle.dumps(edits) == before
    expected = RowEdits(params, prompt, [*output, *draft_tokens], ENDS)
    assert sorted(found.bans().tolist()) == sorted(expected.bans().tolist())
    assert (found.num_outputs < params.min_tokens) == (expected.num_outputs < params.min_tokens)
    assert counts(found) == counts(expected)


def counts(edits: RowEdits) -> dict[int, float]:
    seen = edits.seen
    return dict(zip(seen.ids[: seen.size].tolist(), seen.counts[: seen.size].tolist(), strict=True))


def test_edits_that_do_not_change_with_the_output_are_not_copied():
    edits = RowEdits(SamplingParams(logit_bias={3: 1.0}, bad_words_ids=[[5]], min_tokens=2), [], [1, 2], [9])
    assert edits.after([4, 5]) is edits


# What comes with tokens

GREEDY = SamplingParams(temperature=0)


def peaks(*token_ids: int) -> np.ndarray:
    """Logits of rows that choose these ids."""
    return np.eye(VOCAB, dtype=np.float32)[list(token_ids)] * 5


def free(row: int, draft_tokens: list[int], *token_ids: int) -> Given:
    return Given(row, draft_tokens, peaks(*token_ids), [None] * len(token_ids))


def test_runs_are_counted_and_stand_one_after_another():
    sampled = sample_runs(
        rows_of([GREEDY] * 4),
        [
            free(1, [5, 6, 7], 5, 6, 9, 8),  # two are accepted
            free(2, [], 3),
            free(3, [1], 2, 3),  # none
            free(4, [1, 2], 1, 2, 3),  # all
        ],
    )
    assert sampled.token_ids.tolist() == [5, 6, 9, 3, 2, 1, 2, 3]
    assert sampled.num_tokens.tolist() == [3, 1, 1, 3]
    assert sampled.num_drafted.tolist() == [3, 0, 1, 2]
    assert sampled.logprobs == []
    assert sampled.draft_logprobs == []


def test_the_drafts_log_probabilities_go_with_the_guesses_that_came_true():
    told = [TokenLogprobs(-float(i), 1, [], []) for i in range(6)]
    runs = [free(1, [5, 6, 7], 5, 6, 9, 8), free(2, [4], 4, 3)]
    sampled = sample_runs(rows_of([GREEDY] * 2), runs, told=[*told[:3], None, told[4], None])
    assert sampled.token_ids.tolist() == [5, 6, 9, 4, 3]
    assert sampled.draft_logprobs == [told[0], told[1], None, told[4], None]


def test_log_probabilities_are_told_of_rows_that_count_alone():
    params = [SamplingParams(temperature=0, logprobs=1, min_tokens=5), GREEDY]
    sampled = sample_runs(rows_of(params), [free(1, [5, 6], 5, 7, 8), free(2, [3], 3, 4)])
    assert sampled.token_ids.tolist() == [5, 7, 3, 4]
    assert [one and one.top_ids for one in sampled.logprobs] == [[5], [7], None, None]


def test_rows_that_score_a_prompt_stand_behind_all_runs():
    rows, run = rows_of([SamplingParams(temperature=0, logprobs=0)]), free(1, [5, 6], 5, 7, 8)
    wanted = ScoredTokens(np.array([4, 4]), np.array([1, 0]))
    found = sample_runs(rows, [run], scored=peaks(9, 4), wanted=wanted)
    assert found.token_ids.tolist() == [5, 7]
    assert [score.rank for score in found.scores] == [6, 1]
    assert [score.top_ids for score in found.scores] == [[9], []]
    assert found.logprobs == sample_runs(rows, [run]).logprobs


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_phrase_that_guesses_begin_is_banned_behind_them_alone(wrong):
    """The third row may not choose 7 behind the draft tokens 5 6."""
    params = SamplingParams(temperature=0, bad_words_ids=[[5, 6, 7]])
    logits = peaks(5, 6, 7)
    logits[2, 20] = 1
    draft_tokens = [5, 6]
    if wrong:
        draft_tokens[wrong - 1] = 9
    sampled = sample_runs(rows_of([params]), [Given(1, draft_tokens, logits, [None] * 3)])
    assert sampled.token_ids.tolist() == [5, 6, 20][: wrong or 3]
