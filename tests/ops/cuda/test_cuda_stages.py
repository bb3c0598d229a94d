"""All sampling stages over the kernels give the tokens and reports that they give over numpy."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops import numpy_ops
from ops.cuda.sampling import CudaSamplingOps
from pipelines.inference.contracts.step import Step, no_pairs
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.wire.sampling_params import SamplingParams

VOCAB = 300
IDS = st.integers(0, VOCAB - 1)
PARAMS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.7, 1.0, 1.5]),
    top_k=st.sampled_from([0, 0, 1, 20]),
    top_p=st.sampled_from([1.0, 1.0, 0.9, 0.5]),
    min_p=st.sampled_from([0.0, 0.0, 0.05]),
    min_tokens=st.integers(0, 3),
    repetition_penalty=st.sampled_from([1.0, 0.8, 1.3]),
    presence_penalty=st.sampled_from([0.0, 1.5]),
    frequency_penalty=st.sampled_from([0.0, -0.5, 0.3]),
    logit_bias=st.dictionaries(IDS, st.sampled_from([-100.0, -1.0, 2.5]), max_size=3),
    allowed_token_ids=st.none() | st.lists(IDS, min_size=1, max_size=40),
    bad_words_ids=st.lists(st.lists(IDS, min_size=1, max_size=2), max_size=3),
    seed=st.integers(0, 2**63),
    logprobs=st.sampled_from([None, None, 0, 1, 5, 100]),
)


def rows_of(params):
    rows = SamplingSlots(len(params), VOCAB)
    for row, one in enumerate(params):
        rows.set(row, one, [row, 7], [], 0, [VOCAB - 1])
    return rows


def step_of(rows):
    none, small = np.zeros(0, np.int64), np.zeros(0, np.int32)
    at = np.arange(rows.num_slots, dtype=np.int32)[::-1].copy()
    step = Step(none, none, small, small, np.zeros((0, 0), np.int32), small, 0, none, at, no_pairs())
    return StepContext(step, rows)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PARAMS, min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_a_few_steps_of_any_parameters(one_device, params, seed):
    random, ours, numpys = np.random.default_rng(seed), rows_of(params), rows_of(params)
    ops = CudaSamplingOps(one_device)
    for _ in range(3):
        values = (random.standard_normal((len(params), VOCAB)) * 3).astype(np.float32)
        sampled = sample(Logits(one_device.upload(values), step_of(ours), ops))
        expected = sample(Logits(values, step_of(numpys), numpy_ops))
        assert sampled.token_ids.tolist() == expected.token_ids.tolist()
        check_reports(sampled.logprobs, expected.logprobs)
        for rows in (ours, numpys):
            for row, token in zip(range(len(params))[::-1], sampled.token_ids.tolist(), strict=True):
                rows.append(row, token)


def check_reports(found, expected):
    assert [one is None for one in found] == [one is None for one in expected]
    for one, other in zip(found, expected, strict=True):
        if one is not None:
            assert (one.rank, one.top_ids) == (other.rank, other.top_ids)
            assert one.logprob == pytest.approx(other.logprob, rel=1e-5, abs=2e-6)
            assert one.top_logprobs == pytest.approx(other.top_logprobs, rel=1e-5, abs=2e-6)
