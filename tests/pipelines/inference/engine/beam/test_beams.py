"""The arithmetic of beam search against the same written down in full."""

from __future__ import annotations

import random
from array import array

import numpy as np
import pytest
from beam_reference import Found, search
from breadth import after

from ops.numpy_ops import gather_logprobs
from pipelines.inference.backends.fake_decoder import fake_logits
from pipelines.inference.engine.sequences.beam_group import BeamGroup, num_candidates
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.sampling_params import Beams

VOCAB_SIZE = 97


def likeliest(context: array[int], count: int) -> TokenLogprobs:
    """What the sampler reports of a context."""
    logits = fake_logits([np.array(context, np.int64)], VOCAB_SIZE)
    zero = np.zeros(1, np.int64)
    found = gather_logprobs(logits, zero, zero, count)
    return TokenLogprobs(0.0, 1, found.top_ids[0].tolist(), found.top[0].tolist())


def run(prompt: list[int], beams: Beams, max_tokens: int, ends: frozenset[int]) -> list[Found]:
    group, contexts = BeamGroup(beams, ends, max_tokens), [array("q", prompt)]
    count = num_candidates(beams.width, len(ends))
    while grown := group.advance(contexts, [likeliest(context, count) for context in contexts]):
        assert len(grown) == beams.width
        assert [beam.score for beam in grown] == sorted((beam.score for beam in grown), reverse=True)
        contexts = [contexts[beam.parent] + array("q", [beam.token_id]) for beam in grown]
    return [Found(one.token_ids.tolist(), one.end) for one in group.finished]


def ends_of(draw: random.Random) -> frozenset[int]:
    return frozenset(draw.sample(range(VOCAB_SIZE), draw.choice([0, 1, 3, 8, 20])))


@pytest.mark.parametrize("early_stopping", [False, True, "never"])
@pytest.mark.parametrize("seed", after(4, range(60)))
def test_hypotheses_equal_those_of_whole_vocabularies(seed, early_stopping):
    draw = random.Random(seed)
    beams = Beams(draw.randint(1, 6), draw.choice([-1.0, 0.0, 0.6, 1.0, 2.0]), early_stopping)
    prompt = [draw.randrange(VOCAB_SIZE) for _ in range(draw.randint(1, 5))]
    max_tokens, ends = draw.randint(1, 20), ends_of(draw)
    assert run(prompt, beams, max_tokens, ends) == search(prompt, beams, max_tokens, ends, VOCAB_SIZE)


def test_the_searches_end_by_end_tokens_and_by_length_early_and_late():
    beams = [
        (beam, max_tokens)
        for seed in range(60)
        for draw in [random.Random(seed)]
        for max_tokens in [draw.randint(5, 20)]
        for beam in search([seed], Beams(3), max_tokens, ends_of(draw), VOCAB_SIZE)
    ]
    assert sum(beam.end is None for beam, _ in beams) > 30
    assert sum(beam.end is not None for beam, _ in beams) > 30
    assert sum(len(beam.token_ids) <= max_tokens // 2 for beam, max_tokens in beams) > 20


def test_scores_are_sums_divided_by_the_length_that_counts_the_end_token():
    group = BeamGroup(Beams(1, length_penalty=2.0), frozenset({5}), 9)
    group.advance([array("q", [1])], [TokenLogprobs(0, 1, [4, 5], [-1.0, -2.0])])
    group.advance([array("q", [1, 4])], [TokenLogprobs(0, 1, [5, 4], [-0.5, -3.0])])
    (found,) = group.finished
    assert (found.token_ids.tolist(), found.end, found.score) == ([4, 5], 5, -1.5 / 4)


def test_an_end_token_below_the_best_width_candidates_does_not_finish():
    group = BeamGroup(Beams(1), frozenset({5}), 9)
    (beam,) = group.advance([array("q", [1])], [TokenLogprobs(0, 1, [4, 5], [-1.0, -1.1])])
    assert (beam.token_id, group.finished) == (4, [])
