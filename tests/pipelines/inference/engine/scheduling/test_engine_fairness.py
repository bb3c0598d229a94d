"""No waiting prompt starves, and no long prompt delays those that decode."""

from __future__ import annotations

from engine_rig import Rig

PROMPT = list(range(10, 23))


def test_a_long_prompt_never_delays_a_decoding_sequence():
    rig = Rig(max_sequences=4, max_step_tokens=12, num_blocks=200)
    for key in range(3):
        rig.submit(key, PROMPT[:2], max_tokens=60)
    rig.step()
    rig.submit("long", PROMPT * 12, max_tokens=1)
    num_chunks = 0
    while rig.texts["long", 0].finish is None:
        keys = {output.key for output in rig.step()}
        num_chunks += 1
        assert {0, 1, 2} <= keys
    assert num_chunks == -(-len(PROMPT) * 12 // 9)


def test_a_prompt_gets_its_share_of_every_step_under_full_decode_load():
    rig = Rig(max_sequences=4, max_step_tokens=5, num_blocks=200)
    for key in range(3):
        rig.submit(key, PROMPT[:1], max_tokens=100)
    rig.step()
    rig.submit("late", PROMPT, max_tokens=1)
    for _ in range(7):  # 2 tokens a step beside three decoders
        rig.step()
    assert rig.texts["late", 0].finish == "length"


def test_a_waiting_prompt_is_next_while_younger_ones_keep_coming():
    rig = Rig(max_sequences=2, max_step_tokens=8, num_blocks=12)
    rig.submit("steady", PROMPT[:4], max_tokens=150)
    rig.step()
    rig.submit("large", PROMPT * 2, max_tokens=1)
    for turn in range(40):
        rig.submit(turn, PROMPT[:3], max_tokens=2)
        rig.step()
    rig.run()
    finished = [rig.texts[key, 0].finish for key in ("steady", "large", 39)]
    assert finished == ["length"] * 3


def test_requests_are_served_in_the_order_of_arrival():
    rig = Rig(max_sequences=2, max_step_tokens=6, num_blocks=10)
    firsts: list[object] = []
    for key in range(8):
        rig.submit(key, PROMPT[: 1 + key], max_tokens=8)
    while rig.engine.has_work:
        for output in rig.step():
            if output.key not in firsts:
                firsts.append(output.key)
    assert firsts == list(range(8))


def test_many_choices_wait_for_their_rows_and_are_not_overtaken():
    rig = Rig(max_sequences=4, max_step_tokens=16, num_blocks=100)
    rig.submit("a", PROMPT, n=2, max_tokens=6)
    rig.step()
    rig.submit("many", PROMPT, n=4, max_tokens=3)
    rig.submit("one", PROMPT, max_tokens=3)
    while rig.texts["many", 0].finish is None:
        rig.step()
        assert not rig.texts["one", 0].outputs
    rig.run()
    assert rig.texts["one", 0].finish == "length"


def test_admission_does_not_thrash():
    """Two sequences that do not fit together take turns, they do not push each other out at every step."""
    rig = Rig(max_sequences=2, max_step_tokens=30, num_blocks=10, block_tokens=4, reuse_prefixes=False)
    for key in range(6):
        rig.submit(key, PROMPT, max_tokens=20)
    rig.run()
    assert rig.engine.counts().preemptions <= 6


def test_the_oldest_is_never_preempted():
    rig = Rig(max_sequences=3, max_step_tokens=16, num_blocks=9, block_tokens=4)
    for key in range(5):
        rig.submit(key, PROMPT, max_tokens=20)
    while rig.texts[0, 0].finish is None:
        assert 0 in {output.key for output in rig.step()}
    rig.run()
    assert rig.engine.counts().preemptions > 0


def order_of_first_tokens(rig: Rig) -> list[object]:
    firsts: list[object] = []
    while rig.engine.has_work:
        firsts += [output.key for output in rig.step() if output.key not in firsts]
    return firsts


def test_a_smaller_priority_is_admitted_first_and_equals_in_the_order_of_arrival():
    rig = Rig(max_sequences=1, max_step_tokens=16)
    rig.submit("runs", PROMPT[:3], max_tokens=4, priority=5)
    rig.step()
    for key, priority in (("late", 1), ("plain", 0), ("later", 1), ("urgent", -3), ("plain too", 0)):
        rig.submit(key, PROMPT[:3], max_tokens=2, priority=priority)
    assert order_of_first_tokens(rig) == ["runs", "urgent", "plain", "plain too", "late", "later"]


def test_the_youngest_of_the_largest_priority_is_preempted_first():
    rig = Rig(max_sequences=4, max_step_tokens=40, num_blocks=9, block_tokens=4, reuse_prefixes=False)
    for key, priority in (("old", 1), ("young", 1), ("urgent", 0)):
        rig.submit(key, PROMPT[:6], max_tokens=20, priority=priority)
    ends: list[object] = []
    waited: set[object] = set()
    while rig.engine.has_work:
        ends += [output.key for output in rig.step() if output.piece.finish]
        if rig.engine.counts().preemptions:
            waited |= {sequence.key for sequence in rig.engine.scheduler.waiting}
    assert rig.engine.counts().preemptions > 0
    assert "urgent" not in waited
    assert "young" in waited
    assert ends.index("urgent") < ends.index("young")
