"""Whole requests through `sample`: each parameter's effect, against a slow reference that keeps lists."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.inference.contracts.step import Step
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.inference.sampling.stages import STAGES, sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.nodes.generation.body.sampler import Sampler
from pipelines.wire.sampling_params import SamplingParams

F = np.float32
VOCAB = 12
END = 11


def step(rows, at):
    none = np.zeros(0, np.int64)
    step = Step(
        token_ids=none,
        positions=none,
        starts=none.astype(np.int32),
        num_past=none.astype(np.int32),
        block_table=np.zeros((0, 0), np.int32),
        num_blocks=none.astype(np.int32),
        max_context=0,
        logit_indices=none,
        logit_slots=np.array(at, np.int32),
        copies=np.zeros((0, 2), np.int32),
    )
    return StepContext(step, rows)


def row_of(params, prompt=(), output=(), choice=0, ends=(END,), vocab=VOCAB):
    """One row, taken with the prompt and then fed the output token by token."""
    rows = SamplingSlots(1, vocab)
    rows.set(0, params, list(prompt), [], choice, list(ends))
    for token in output:
        rows.append(0, token)
    return rows


def one(params, logits, **history):
    rows = row_of(params, vocab=len(logits), **history)
    return sample(Logits(np.array([logits], F), step(rows, [0])))


def edited(params, logits=None, **history):
    """What the stages leave of a row of logits; the token is chosen greedily."""
    values = np.array([logits if logits is not None else np.linspace(3, -3, VOCAB)], F)
    sample(Logits(values, step(row_of(params, **history), [0])))
    return values[0]


def plain_edit(row, params, prompt, output, ends):
    """Every stage with lists and loops, in vLLM's order."""
    row = row.copy()
    if params.allowed_token_ids is not None:
        for token in range(len(row)):
            if token not in params.allowed_token_ids:
                row[token] = -np.inf
    for word in params.bad_words_ids:
        if len(word) <= len(output) + 1 and output[len(output) - len(word) + 1 :] == word[:-1]:
            row[word[-1]] = -np.inf
    if len(output) < params.min_tokens:
        row[ends] = -np.inf
    for token, bias in params.logit_bias.items():
        row[token] += F(bias)
    for token in {*prompt, *output}:
        factor = F(params.repetition_penalty)
        row[token] = row[token] / factor if row[token] > 0 else row[token] * factor
    for token in set(output):
        row[token] -= F(output.count(token)) * F(params.frequency_penalty)
        row[token] -= F(params.presence_penalty)
    return row


IDS = st.integers(0, VOCAB - 1)
PARAMS = st.builds(
    SamplingParams,
    temperature=st.just(0.0),
    min_tokens=st.integers(0, 4),
    repetition_penalty=st.sampled_from([1.0, 1.0, 0.8, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.0, 1.5]),
    frequency_penalty=st.sampled_from([0.0, 0.0, -0.5]),
    logit_bias=st.dictionaries(IDS, st.sampled_from([-100.0, -1.0, 2.5]), max_size=3),
    allowed_token_ids=st.none() | st.lists(IDS, min_size=1, max_size=8),
    bad_words_ids=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), max_size=3),
)
SEQUENCES = st.lists(
    st.tuples(
        PARAMS, st.lists(IDS, max_size=5), st.lists(st.integers(0, 3), max_size=6), st.lists(IDS, max_size=2)
    ),
    max_size=4,
)


@settings(max_examples=150)
@given(SEQUENCES, st.integers(0, 2**32 - 1))
def test_a_batch_of_any_parameters_is_edited_as_the_plain_reference_says(sequences, seed):
    rows = SamplingSlots(6, VOCAB)
    at = list(range(6))[::-1][: len(sequences)]
    logits = (np.random.default_rng(seed).standard_normal((len(at), VOCAB)) * 3).astype(F)
    expected = logits.copy()
    for i, (row, (params, prompt, output, ends)) in enumerate(zip(at, sequences, strict=True)):
        rows.set(row, params, prompt, output[:2], 0, ends)
        for token in output[2:]:
            rows.append(row, token)
        expected[i] = plain_edit(expected[i], params, prompt, output, ends)
    sampled = sample(Logits(logits, step(rows, at)))
    np.testing.assert_allclose(logits, expected, rtol=1e-6)
    assert sampled.token_ids.tolist() == [int(row.argmax()) for row in logits]
    assert sampled.logprobs == []


def test_logits_may_be_wider_than_the_vocabulary_that_was_promised():
    rows = row_of(SamplingParams(temperature=1, top_p=0.9999, seed=1), vocab=4)
    logits = np.zeros((1, 3000), F)
    found = set()
    for _ in range(20):
        found.add(int(sample(Logits(logits, step(rows, [0]))).token_ids[0]))
        rows.append(0, 0)
    assert len(found) > 15


def test_stages_stand_in_the_order_in_which_they_apply():
    assert [stage.name for stage in STAGES] == [
        "allowed_token_ids",
        "bad_words",
        "min_tokens",
        "opening",
        "begin_suppress_tokens",
        "logit_bias",
        "repetition_penalty",
        "presence_and_frequency_penalty",
        "dry",
        "llama_samplers",
        "timestamps",
    ]


def test_a_neutral_request_leaves_the_logits_alone():
    logits = np.linspace(3, -3, VOCAB, dtype=F)
    np.testing.assert_array_equal(edited(SamplingParams(temperature=0.7, top_k=3, top_p=0.9), logits), logits)


def test_a_bias_can_decide_a_greedy_choice():
    assert one(SamplingParams(temperature=0, logit_bias={7: 10.0}), np.zeros(VOCAB)).token_ids.tolist() == [7]


def test_only_allowed_tokens_are_drawn():
    params = SamplingParams(allowed_token_ids=[4, 9])
    found = {int(one(params, np.zeros(VOCAB), choice=choice).token_ids[0]) for choice in range(40)}
    assert found == {4, 9}


def test_a_one_token_bad_word_is_never_possible():
    assert edited(SamplingParams(bad_words_ids=[[5]]))[5] == -np.inf


@pytest.mark.parametrize(
    ("output", "banned"), [([], False), ([1], False), ([1, 2], True), ([1, 2, 2], False)]
)
def test_a_longer_bad_word_is_impossible_only_where_it_would_be_completed(output, banned):
    values = edited(SamplingParams(bad_words_ids=[[1, 2, 5]]), output=output)
    assert np.isneginf(values).tolist() == [banned and token == 5 for token in range(VOCAB)]


def test_a_bad_word_does_not_begin_in_the_prompt():
    assert edited(SamplingParams(bad_words_ids=[[1, 5]]), prompt=[1])[5] > -np.inf


@pytest.mark.parametrize(("num_outputs", "possible"), [(0, False), (1, False), (2, True)])
def test_end_tokens_are_impossible_before_min_tokens(num_outputs, possible):
    values = edited(SamplingParams(min_tokens=2), output=[3] * num_outputs, ends=[END, 4])
    assert np.isfinite(values).tolist() == [possible or token not in (END, 4) for token in range(VOCAB)]


def test_repetition_counts_the_prompt_and_presence_does_not():
    logits = np.ones(VOCAB)
    assert edited(SamplingParams(repetition_penalty=2.0), logits, prompt=[3], output=[5])[
        [3, 5]
    ].tolist() == [0.5, 0.5]
    assert edited(SamplingParams(presence_penalty=1.0), logits, prompt=[3], output=[5, 5])[
        [3, 5]
    ].tolist() == [1, 0]
    assert edited(SamplingParams(frequency_penalty=1.0), logits, prompt=[3], output=[5, 5])[
        [3, 5]
    ].tolist() == [1, -1]


def test_logprobs_are_those_of_the_model_before_any_stage():
    logits = np.log(np.array([0.5, 0.25, 0.125, 0.125]))
    params = SamplingParams(temperature=0.3, allowed_token_ids=[1], logprobs=2, seed=5)
    (report,) = one(params, logits).logprobs
    assert report.rank == 2
    assert report.top_ids == [0, 1]
    np.testing.assert_allclose([report.logprob, *report.top_logprobs], np.log([0.25, 0.5, 0.25]), rtol=1e-5)


def test_each_row_gets_as_many_alternatives_as_it_asked_for():
    rows = SamplingSlots(4, VOCAB)
    for row, wanted in enumerate([None, 0, 3, 99]):
        rows.set(row, SamplingParams(temperature=0, logprobs=wanted), [], [], 0, [])
    found = sample(Logits(np.tile(np.linspace(3, -3, VOCAB).astype(F), (4, 1)), step(rows, [0, 3, 2, 1])))
    assert found.logprobs[0] is None
    assert [len(report.top_ids) for report in found.logprobs[1:]] == [VOCAB, 3, 0]
    assert [len(report.top_logprobs) for report in found.logprobs[1:]] == [VOCAB, 3, 0]
    assert {report.rank for report in found.logprobs[1:]} == {1}


def test_an_empty_step_gives_nothing():
    found = sample(Logits(np.zeros((0, VOCAB), F), step(SamplingSlots(2, VOCAB), [])))
    assert found.token_ids.tolist() == []
    assert found.logprobs == []


def test_logits_that_cannot_be_written_or_are_strided_are_copied():
    rows = row_of(SamplingParams(temperature=0, logit_bias={2: 9.0}))
    wide = np.zeros((1, 2 * VOCAB), F)
    wide.flags.writeable = False
    assert sample(Logits(wide[:, ::2], step(rows, [0]))).token_ids.tolist() == [2]


MIXED = [
    SamplingParams(temperature=0),
    SamplingParams(temperature=0.9, seed=1),
    SamplingParams(temperature=1.2, top_k=20, top_p=0.95, seed=2, logprobs=4),
    SamplingParams(top_p=0.8, seed=3, repetition_penalty=1.2),
    SamplingParams(min_p=0.02, seed=4, frequency_penalty=0.7, presence_penalty=0.1),
    SamplingParams(temperature=0.8, seed=5, logit_bias={9: 2.0}, bad_words_ids=[[1], [2, 3]], min_tokens=3),
    SamplingParams(temperature=0, repetition_penalty=1.5, logprobs=1),
    SamplingParams(
        temperature=0.6,
        top_p=0.9,
        seed=6,
        logprobs=1,
        logprob_token_ids=[3],
        temp_scaled_logprobs=True,
        top_p_normalized_logprobs=True,
    ),
]


def logits_after(output, vocab):
    """A model whose logits are a hash of its output."""
    seed = hash((tuple(output), vocab)) % 2**32
    return np.random.default_rng(seed).standard_normal(vocab, dtype=F) * 3


def text_alone(params, choice, length, vocab):
    rows, output = SamplingSlots(1, vocab), []
    rows.set(0, params, [1, 2, 3], [], choice, [vocab - 1])
    for _ in range(length):
        found = sample(Logits(logits_after(output, vocab)[None].copy(), step(rows, [0])))
        output.append(int(found.token_ids[0]))
        rows.append(0, output[-1])
    return output


@pytest.mark.parametrize("vocab", [50, 5003])
def test_a_sequence_draws_the_same_text_alone_and_in_batches_that_change_every_step(vocab):
    """Other mates, other rows, other places in the step, and preemptions that take another row."""
    length = 12
    sequences = [(params, choice) for params in MIXED for choice in (0, 1)]
    expected = [text_alone(params, choice, length, vocab) for params, choice in sequences]
    random = np.random.default_rng(7)
    rows, outputs, place = SamplingSlots(20, vocab), [[] for _ in sequences], {}
    while any(len(output) < length for output in outputs):
        for index in random.permutation(len(sequences)):
            if index in place and random.random() < 0.2:
                rows.clear(place.pop(index))
            if index not in place:
                place[index] = int(random.choice([row for row in range(20) if row not in place.values()]))
                params, choice = sequences[index]
                rows.set(place[index], params, [1, 2, 3], outputs[index], choice, [vocab - 1])
        chosen = [
            i
            for i in random.permutation(len(sequences))
            if random.random() < 0.6 and len(outputs[i]) < length
        ]
        if not chosen:
            continue
        logits = np.stack([logits_after(outputs[index], vocab) for index in chosen])
        sampled = sample(Logits(logits, step(rows, [place[index] for index in chosen])))
        for index, token in zip(chosen, sampled.token_ids.tolist(), strict=True):
            outputs[index].append(token)
            rows.append(place[index], token)
    assert outputs == expected
    assert expected[2] != expected[3]  # choices of one request differ


def test_requests_with_different_seeds_draw_different_texts():
    texts = {tuple(text_alone(SamplingParams(seed=seed), 0, 16, 50)) for seed in range(20)}
    assert len(texts) == 20


def test_the_node_chooses_as_sample_does(tmp_path):
    logits = np.random.default_rng(0).standard_normal((1, VOCAB), dtype=F)
    node = Sampler(Sampler.Config(defaults="generation_config.json"), tmp_path)
    params = SamplingParams(seed=9, logprobs=1)
    found = node.run(Logits(logits.copy(), step(row_of(params), [0])))
    expected = sample(Logits(logits.copy(), step(row_of(params), [0])))
    assert found.token_ids.tolist() == expected.token_ids.tolist()
    assert found.logprobs == expected.logprobs
