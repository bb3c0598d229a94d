"""The time from a prompt's admission to the first token of each of its choices, told once."""

from __future__ import annotations

from engine_rig import Rig

from pipelines.inference.engine.interface import outputs
from pipelines.inference.engine.scheduling import scheduler

PROMPT = list(range(10, 23))


def told(rig, key, choice):
    return [output.piece.prefill_s for output in rig.texts[key, choice].outputs]


def test_only_the_first_output_of_each_choice_tells_it():
    rig = Rig(max_step_tokens=5)
    rig.submit("a", PROMPT, n=2, max_tokens=4)
    rig.run()
    for choice in (0, 1):
        first, *later = told(rig, "a", choice)
        assert first > 0
        assert later == [None, None, None]


def test_waiting_is_no_part_of_it(monkeypatch):
    clock = iter(range(1000))
    for module in (scheduler, outputs):
        monkeypatch.setattr(module, "perf_counter", lambda: float(next(clock)))
    rig = Rig(max_sequences=1)
    rig.submit("a", PROMPT, max_tokens=8)
    rig.submit("b", PROMPT[:3], max_tokens=8)  # admitted when the first has ended
    rig.run()
    assert (told(rig, "a", 0)[0], told(rig, "b", 0)[0]) == (1.0, 1.0)


def test_it_passes_to_who_takes_the_place_of_an_aborted_choice():
    rig = Rig(max_step_tokens=5)
    rig.submit("a", PROMPT, n=2, max_tokens=2)
    rig.step()
    rig.engine.cancel("a", 0)
    rig.run()
    assert told(rig, "a", 1)[0] > 0


def test_counts_are_the_callers_own():
    rig = Rig()
    counts = rig.engine.counts()
    rig.engine.scheduler.counts.count_run(3, 2)
    assert counts.accepted_per_position == []
    assert rig.engine.counts().accepted_per_position == [1, 1]
