"""An output that repeats itself is found out at the token that completes the pattern's last repetition."""

from __future__ import annotations

from array import array

from engine_rig import Rig
from hypothesis import given
from hypothesis import strategies as st

from pipelines.inference.engine.sequences.repetition import RepetitionWatch
from pipelines.wire.sampling_params import RepetitionDetection

ALWAYS_7 = {7: 100.0}


def repeats(output: list[int], wanted: RepetitionDetection) -> bool:
    """By the definition."""
    return any(
        len(output) >= size * wanted.min_count
        and output[-size * wanted.min_count :] == output[-size:] * wanted.min_count
        for size in range(wanted.min_pattern_size, wanted.max_pattern_size + 1)
    )


@given(
    output=st.lists(st.integers(0, 1), max_size=40),
    prompt=st.lists(st.integers(0, 1), max_size=4),
    sizes=st.tuples(st.integers(1, 6), st.integers(0, 5)),
    min_count=st.integers(2, 4),
    max_tokens=st.integers(40, 60),
)
def test_a_watch_finds_what_the_definition_says(output, prompt, sizes, min_count, max_tokens):
    wanted = RepetitionDetection(sizes[0] + sizes[1], min_count, sizes[0])
    watch, ids = RepetitionWatch(wanted, max_tokens), array("q", prompt)
    for place, token in enumerate(output):
        ids.append(token)
        assert watch.append(ids, len(prompt)) == repeats(output[: place + 1], wanted)


def test_a_pattern_larger_than_the_output_costs_nothing():
    watch = RepetitionWatch(RepetitionDetection(10**9, 2), max_tokens=20)
    assert len(watch._runs) == 10


def test_a_sequence_ends_with_the_repetition_in_its_text():
    rig = Rig()
    wanted = RepetitionDetection(max_pattern_size=3, min_count=2)
    rig.submit("a", [1, 2, 7, 7, 7], max_tokens=60, logit_bias=ALWAYS_7, repetition_detection=wanted)
    rig.run()
    assert (rig.texts["a", 0].token_ids, rig.texts["a", 0].finish) == ([7, 7], "repetition")


def test_repetition_waits_for_min_tokens():
    rig = Rig()
    wanted = RepetitionDetection(max_pattern_size=1, min_count=3)
    rig.submit("a", [1], min_tokens=5, max_tokens=60, logit_bias=ALWAYS_7, repetition_detection=wanted)
    rig.run()
    assert (len(rig.texts["a", 0].token_ids), rig.texts["a", 0].finish) == (5, "repetition")


def test_an_output_that_is_full_ends_for_its_length():
    rig = Rig()
    wanted = RepetitionDetection(max_pattern_size=1, min_count=3)
    rig.submit("a", [1], max_tokens=3, logit_bias=ALWAYS_7, repetition_detection=wanted)
    rig.run()
    assert (len(rig.texts["a", 0].token_ids), rig.texts["a", 0].finish) == (3, "length")


def test_a_preemption_forgets_nothing_of_what_was_seen():
    rig = Rig()
    wanted = RepetitionDetection(max_pattern_size=2, min_count=6)
    rig.submit("a", [1, 2], max_tokens=60, logit_bias=ALWAYS_7, repetition_detection=wanted)
    for _ in range(4):
        rig.step()
    rig.preempt()
    rig.run()
    assert len(rig.texts["a", 0].token_ids) == 6
