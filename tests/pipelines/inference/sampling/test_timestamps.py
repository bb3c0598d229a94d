"""The stages that Whisper needs: an opening, suppressed first tokens, and the rules of times."""

import numpy as np
import pytest
from test_sampling_stages import step

from pipelines.inference.sampling.logit_edits import RowEdits
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits
from pipelines.inference.sampling.timestamps import TimestampState
from pipelines.wire.sampling_params import SamplingParams, TimestampRules

VOCAB, END, FIRST = 40, 20, 30
RULES = TimestampRules(FIRST, 4)


def chosen(params, output, logits):
    rows = SamplingSlots(1, len(logits))
    rows.set(0, params, [1], [], 0, [END])
    for token in output:
        rows.append(0, token)
    return int(sample(Logits(np.array([logits], np.float32), step(rows, [0]))).token_ids[0])


def logits(**best):
    values = np.zeros(VOCAB, np.float32)
    for name, value in best.items():
        values[int(name[1:])] = value
    return values


def test_an_opening_is_followed_before_anything_else_counts():
    params = SamplingParams(temperature=0, opening=[[5, 6], [7]], begin_suppress_ids=[9])
    favours = logits(_9=9, _6=2, _5=1, _8=3)
    assert chosen(params, [], favours) == 6
    assert chosen(params, [6], favours) == 7
    assert chosen(params, [6, 7], favours) == 8  # 9 may not be the first
    assert chosen(params, [6, 7, 8], favours) == 9


def test_an_opening_may_be_a_token_that_is_suppressed_later():
    params = SamplingParams(temperature=0, opening=[[5]], bad_words_ids=[[5], [6]])
    assert chosen(params, [], logits(_6=9)) == 5
    assert chosen(params, [5], logits(_6=9, _5=8, _7=1)) == 7


@pytest.mark.parametrize(
    ("output", "best", "expected"),
    [
        ([], {"_3": 9, "_32": 1}, 32),  # begins with a time
        ([], {"_39": 9, "_33": 1}, 33),  # which is early
        ([31], {"_33": 9, "_4": 1}, 4),  # then text
        ([31, 4], {"_31": 9, "_30": 8, "_32": 7}, 32),  # the segment is not empty
        ([31, 4, 33], {"_4": 9, "_33": 1}, 33),  # times come in pairs
        ([31, 4, 33], {"_4": 9, "_20": 3}, 20),  # or before the end
        ([31, 4, 33, 33], {"_35": 9, "_5": 1}, 5),
        ([31, 4], {"_29": 9, "_6": 5}, 6),  # "no times" is never said
    ],
)
def test_times_come_in_pairs_and_never_go_back(output, best, expected):
    params = SamplingParams(temperature=0, timestamps=RULES)
    assert chosen(params, output, logits(**best)) == expected


def test_times_together_are_likelier_than_one_word():
    params = SamplingParams(temperature=0, timestamps=RULES)
    one_word = logits(_5=1.5)
    assert chosen(params, [30, 4], one_word) >= FIRST  # eight times of e⁰ outweigh e¹·⁵
    assert chosen(params, [30, 4], logits(_5=3)) == 5


def test_draft_tokens_count_as_appended():
    params = SamplingParams(opening=[[5]], timestamps=RULES)
    edits = RowEdits(params, [], [], [END])
    later = edits.after([5, 31, 4])
    assert later.times.highest == 31
    assert not later.times.last_is_time
    assert later.begins is False
    assert edits.times.highest == -1
    assert edits.opens


@pytest.mark.breadth
def test_the_rules_are_those_of_transformers():
    torch = pytest.importorskip("torch")
    from transformers import GenerationConfig
    from transformers.generation.logits_process import WhisperTimeStampLogitsProcessor

    config = GenerationConfig(
        no_timestamps_token_id=FIRST - 1, eos_token_id=END, max_initial_timestamp_index=4
    )
    processor = WhisperTimeStampLogitsProcessor(config, begin_index=2)
    rng = np.random.default_rng(0)
    for _ in range(300):
        output = []
        for _ in range(12):
            row = rng.normal(size=VOCAB).astype(np.float32) * 3
            ids = torch.tensor([[1, 2, *output]])
            theirs = processor(ids, torch.tensor(row[None]))[0].numpy()
            bits = TimestampState(RULES, END, output).allowed(row.copy())
            ours = np.unpackbits(bits.view(np.uint8), bitorder="little")[:VOCAB].astype(bool)
            assert (ours == (theirs > -np.inf)).all(), output
            options = np.flatnonzero(ours)
            if len(options) == 0 or (options[0] == END and len(options) == 1):
                break
            output.append(int(rng.choice(options[options != END])))
