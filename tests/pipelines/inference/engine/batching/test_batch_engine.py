"""The engine of encoders around a fake one: outputs of any interleaving are those of each text alone."""

from __future__ import annotations

import time

import numpy as np
import pytest
from batch_rig import LONG_S, Rig, rows_of, tensors
from fake_encoder import row_of
from hypothesis import given
from hypothesis import strategies as st

from pipelines.base.errors import Overloaded, RequestError
from pipelines.inference.contracts.device_errors import DeviceLost
from pipelines.inference.engine.batching.text_checks import MAX_ANSWER_VALUES
from pipelines.inference.engine.batching.threaded_engine import ThreadEnded
from pipelines.inference.engine.interface.engine_contract import TensorRequest
from pipelines.telemetry.step_profile import BATCHES
from pipelines.wire.framing import MAX_FRAME_BYTES
from pipelines.wire.tensor_codec import ENVELOPE_BYTES


class Clock:
    """Seconds as the test sets them."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


TEXT = st.lists(st.integers(0, 299), min_size=1, max_size=40)
REQUEST = st.lists(TEXT, min_size=1, max_size=12)


@pytest.fixture
def rig():
    rigs = []

    def make(**settings):
        rigs.append(Rig(**settings))
        return rigs[-1]

    yield make
    for each in rigs:
        each.close()


@given(st.lists(st.tuples(REQUEST, st.booleans()), min_size=1, max_size=12), st.sampled_from([1, 64, 512]))
def test_each_request_has_its_own_rows_in_order(requests, budget):
    running_rig = Rig(max_batch_tokens=budget)
    try:
        for key, (texts, _) in enumerate(requests):
            running_rig.put(key, texts)
            if key and requests[key - 1][1]:
                running_rig.engine.cancel(key - 1)
        kept = {key for key in range(len(requests)) if not (requests[key][1] and key + 1 < len(requests))}
        answers = {}
        while not kept <= answers.keys():
            key, answer = running_rig.answer()
            assert key not in answers
            answers[key] = answer["embeddings"]
        for key, rows in answers.items():
            np.testing.assert_array_equal(rows, rows_of(requests[key][0]))
    finally:
        running_rig.close()


def test_rows_of_tokens_come_one_text_behind_another(rig):
    made = rig(per_token=True, max_batch_tokens=16)
    texts = [[1, 2, 3], [4], [5, 6, 7, 8, 9], [10, 11, 12]]
    made.put("key", texts)
    answer = made.answer()[1]
    assert answer["lengths"].tolist() == [3, 1, 5, 3]
    expected = [row_of(text[:end]) for text in texts for end in range(1, len(text) + 1)]
    np.testing.assert_array_equal(answer["embeddings"], expected)


def test_a_batch_knows_each_text_s_types_and_whether_it_wants_an_activation(rig):
    running_rig = rig(held=True)
    running_rig.put("first", [[9]])
    running_rig.body.began.get(timeout=LONG_S)
    running_rig.put("pairs", [[1, 2, 3], [4, 5]], types=[[0, 1, 1], [0, 1]])
    running_rig.put("plain", [[6, 7, 8]], activate=False)
    running_rig.body.turns.release(2)
    answers = dict(running_rig.answer() for _ in range(3))
    batch = running_rig.body.began.get(timeout=LONG_S)
    assert (len(batch.lengths), batch.ids.shape) == (3, (3, 3))
    np.testing.assert_array_equal(
        answers["pairs"]["embeddings"], [row_of([1, 2, 3], [0, 1, 1]), row_of([4, 5], [0, 1])]
    )
    np.testing.assert_array_equal(answers["plain"]["embeddings"], [row_of([6, 7, 8], activate=False)])


def test_texts_of_several_requests_share_a_batch(rig):
    running_rig = rig(held=True)
    running_rig.put(0, [[9]])
    running_rig.body.began.get(timeout=LONG_S)
    for key in range(1, 6):
        running_rig.put(key, [[key] * 20])
    counts = running_rig.engine.counts()
    assert (counts.running, counts.waiting) == (1, 5)
    running_rig.body.turns.release(2)
    assert sorted(running_rig.answer()[0] for _ in range(6)) == [0, 1, 2, 3, 4, 5]
    assert running_rig.body.began.get(timeout=LONG_S).ids.shape == (5, 20)
    counts = running_rig.engine.counts()
    assert (counts.running, counts.waiting, counts.steps, counts.prompt_tokens) == (0, 0, 2, 101)


def test_padding_is_counted_beside_the_tokens(rig):
    running_rig = rig()
    running_rig.put("key", [[1] * 10, [2] * 7])
    running_rig.answer()
    counts = running_rig.engine.counts()
    assert (counts.prompt_tokens, counts.step_tokens, counts.padding_tokens) == (17, 17, 3)
    (ran,) = running_rig.engine.finished_batches
    assert (ran.num_tokens, [num_texts for num_texts, _ in ran.waits]) == (17, [1, 1])
    (steps,) = running_rig.engine.profile.summary()
    assert (steps.kind, steps.steps, steps.tokens, steps.sequences) == (BATCHES, 1, 17, 2)
    assert {phase.name for phase in steps.phases} == {"gather", "fetch", "scatter"}


def test_what_waits_of_an_aborted_request_is_dropped_and_its_run_ends_unheard(rig):
    running_rig = rig(held=True, max_batch_tokens=8)
    running_rig.put("gone", [[1] * 8, [2] * 8, [3] * 8])
    running_rig.body.began.get(timeout=LONG_S)
    running_rig.put("kept", [[4] * 8])
    running_rig.engine.cancel("gone")
    running_rig.engine.cancel("nobody")
    assert running_rig.engine.counts().waiting == 1
    running_rig.body.turns.release(9)
    assert running_rig.answer()[0] == "kept"
    assert running_rig.told.empty()
    assert running_rig.engine.counts().steps == 2


def test_a_text_that_breaks_its_batch_fails_its_request_alone(rig, caplog):
    running_rig = rig(held=True, max_batch_tokens=280)
    running_rig.put("running", [[1] * 64])
    running_rig.body.began.get(timeout=LONG_S)
    running_rig.encoder.poison = 13
    for key in range(7):
        running_rig.put(key, [[key + 1] * 20, [13 if key == 4 else key] * 19])
    running_rig.body.turns.release(1)
    running_rig.body.began.get(timeout=LONG_S)  # all of them
    running_rig.engine.cancel(1)
    assert running_rig.engine.counts().running == 14
    running_rig.body.turns.release(20)
    answers = dict(running_rig.answer() for _ in range(7))
    assert answers.pop(4).message == "the batch of this request failed; see the server's log"
    for key, answer in answers.items():
        np.testing.assert_array_equal(answer["embeddings"], rows_of(running_rig.asked[key]))
    assert answers.keys() == {"running", 0, 2, 3, 5, 6}
    assert [record.exc_info[1].args for record in caplog.records if record.exc_info] == [("poison",)]
    counts = running_rig.engine.counts()
    assert (counts.waiting, counts.failed_steps, running_rig.told.empty()) == (0, 3, True)


def test_what_is_to_be_run_again_is_dropped_with_its_request(rig):
    running_rig = rig(held=True)
    running_rig.put("running", [[1]])
    running_rig.body.began.get(timeout=LONG_S)
    running_rig.encoder.poison = 13
    for key in range(4):
        running_rig.put(key, [[13]])
    running_rig.body.turns.release(2)
    assert [len(running_rig.body.began.get(timeout=LONG_S).ids) for _ in range(2)] == [4, 2]
    assert running_rig.engine.counts().waiting == 2
    for key in range(4):
        running_rig.engine.cancel(key)
    assert running_rig.engine.counts().waiting == 0
    running_rig.put("after", [[2]])
    running_rig.body.turns.release(9)
    assert [running_rig.answer()[0] for _ in range(2)] == ["running", "after"]


def test_a_body_that_raises_fails_the_requests_of_its_batch_alone(rig, caplog):
    running_rig = rig(held=True, max_batch_tokens=40)
    running_rig.put("running", [[1] * 20])
    running_rig.body.began.get(timeout=LONG_S)
    running_rig.put("failing", [[2] * 20, [3] * 20, [4] * 20, [5] * 5])
    running_rig.body.turns.release()
    running_rig.answer()
    running_rig.encoder.trouble = RuntimeError("out of paper")
    running_rig.put("other", [[6] * 38])
    running_rig.body.turns.release(9)
    answers = dict(running_rig.answer() for _ in range(2))
    assert answers["failing"].message == "the batch of this request failed; see the server's log"
    assert [record.exc_info[1].args for record in caplog.records] == [("out of paper",)]
    np.testing.assert_array_equal(answers["other"]["embeddings"], rows_of([[6] * 38]))
    counts = running_rig.engine.counts()
    assert (counts.waiting, counts.failed_steps, running_rig.told.empty()) == (0, 1, True)
    running_rig.put("failing", [[7]])
    np.testing.assert_array_equal(running_rig.answer()[1]["embeddings"], rows_of([[7]]))


@pytest.mark.parametrize("lengths", [(20,), (1, 64), range(1, 65)])
@pytest.mark.parametrize("num_batches_before", [1, 3])
def test_one_text_is_answered_within_two_batches_of_ten_thousand_that_came_earlier(
    rig, lengths, num_batches_before
):
    running_rig = rig(held=True, max_batch_tokens=200)
    running_rig.put("many", [[1] * lengths[i % len(lengths)] for i in range(10_000)])
    running_rig.body.began.get(timeout=LONG_S)
    for _ in range(num_batches_before - 1):
        running_rig.body.turns.release()
        running_rig.body.began.get(timeout=LONG_S)
    running_rig.put("one", [[2] * 50])
    running_rig.body.turns.release(2)
    assert running_rig.answer()[0] == "one"


def test_the_smaller_its_priority_the_sooner_a_request_is_answered(rig):
    made = rig(held=True, max_batch_tokens=20)
    made.put("running", [[1] * 20])
    made.body.began.get(timeout=LONG_S)
    for key, priority in [("pooled", 0), ("last", 2**63 - 1), ("soon", -1), ("first", -(2**63))]:
        made.put(key, [[1] * 20] * 3, priority=priority)
    made.body.turns.release(13)
    answered = [made.answer()[0] for _ in range(5)]
    assert answered == ["running", "first", "soon", "pooled", "last"]


def test_how_long_texts_waited_and_their_batch_took_is_told(rig):
    running_rig = rig(held=True, max_batch_tokens=20, clock=(clock := Clock()))
    running_rig.put("first", [[1] * 20])
    running_rig.body.began.get(timeout=LONG_S)
    clock.now_s = 1.0
    running_rig.put("second", [[1] * 10] * 3)
    clock.now_s = 5.0
    running_rig.body.turns.release()
    running_rig.body.began.get(timeout=LONG_S)
    clock.now_s = 7.0
    running_rig.body.turns.release()
    running_rig.body.began.get(timeout=LONG_S)
    running_rig.body.turns.release()
    assert [running_rig.answer()[0] for _ in range(2)] == ["first", "second"]
    told = [(ran.num_tokens, ran.took_s, ran.waits) for ran in running_rig.engine.finished_batches]
    assert told == [(20, 5.0, [(1, 0.0)]), (20, 2.0, [(2, 4.0)]), (10, 0.0, [(1, 6.0)])]


def test_a_call_that_is_not_full_waits_for_the_oldest_of_what_still_waits(rig):
    running_rig = rig(held=True, max_batch_tokens=40, max_wait_s=LONG_S, clock=(clock := Clock()))
    running_rig.put("running", [[1] * 40])
    running_rig.body.began.get(timeout=LONG_S)
    clock.now_s = 3.0
    running_rig.put("older", [[1] * 4])
    clock.now_s = 4.0
    running_rig.put("newer", [[1] * 4])
    assert running_rig.engine._due_s() == 3.0 + LONG_S - 4.0
    running_rig.engine.cancel("older")
    assert running_rig.engine._due_s() == LONG_S
    running_rig.body.turns.release()
    assert running_rig.answer()[0] == "running"


def test_a_lost_device_is_told_to_who_steps(rig):
    made = rig()
    made.encoder.trouble = DeviceLost("gone")
    made.put("key", [[1]])
    made.engine._threads[0].join(LONG_S)
    with pytest.raises(DeviceLost):
        made.engine.check_alive()
    made.body.closed.set()  # nobody calls a device that is lost


def test_a_thread_that_ends_by_itself_is_no_request_s_fault(rig, monkeypatch):
    made = rig()
    monkeypatch.setattr(made.engine._waiting, "take", lambda: 1 / 0)
    made.put("key", [[1]])
    made.engine._threads[0].join(LONG_S)
    with pytest.raises(ThreadEnded, match="division"):
        made.engine.check_alive()
    made.body.closed.set()


@pytest.mark.parametrize(
    ("texts", "said", "field"),
    [
        ([[1], []], "The decoder prompt cannot be empty", None),
        ([], "The decoder prompt cannot be empty", None),
        ([[1], [5, 300]], "Token id 300 is out of vocabulary", None),
        ([[-1]], "Token id -1 is out of vocabulary", None),
        ([[1] * 65], "maximum context length is 64 tokens. However, your prompt contains 65", "input_tokens"),
    ],
)
def test_texts_that_the_model_cannot_read(rig, texts, said, field):
    made = rig()
    with pytest.raises(RequestError, match=said) as caught:
        made.put("key", texts)
    assert caught.value.field == field
    assert made.engine.counts().waiting == 0


def test_lengths_that_are_not_those_of_the_ids(rig):
    inputs = {**tensors([[1, 2]]), "lengths": np.array([1], np.int32)}
    with pytest.raises(RequestError, match="lengths of the texts"):
        rig().engine.submit("key", TensorRequest(inputs, None, print))


def test_only_so_many_tokens_may_wait(rig):
    running_rig = rig(held=True, max_waiting_tokens=50)
    running_rig.put("running", [[1]])
    running_rig.body.began.get(timeout=LONG_S)
    running_rig.put("large", [[2] * 30, [3] * 30])  # alone it may be larger
    with pytest.raises(Overloaded, match="texts of 60 tokens wait"):
        running_rig.put("more", [[4]])
    running_rig.engine.cancel("large")
    running_rig.put("more", [[4]])
    running_rig.body.turns.release(2)
    assert [running_rig.answer()[0] for _ in range(2)] == ["running", "more"]


@pytest.mark.parametrize(("per_token", "texts"), [(False, [[1] * 9, [2]]), (True, [[1, 2]])])
def test_an_answer_holds_only_so_many_numbers(rig, monkeypatch, per_token, texts):
    monkeypatch.setattr("pipelines.inference.engine.batching.text_checks.MAX_ANSWER_VALUES", 8)
    made = rig(per_token=per_token)
    with pytest.raises(
        RequestError, match="hold 12 numbers: 4 numbers for each t(ext|oken); one request may have 8"
    ):
        made.put("more", [*texts, [3]])
    assert not made.body.began.qsize()
    made.put("most", texts)
    assert made.answer()[0] == "most"


def test_the_wire_carries_the_largest_answer():
    assert MAX_ANSWER_VALUES * 4 < MAX_FRAME_BYTES - ENVELOPE_BYTES


def test_a_batch_that_is_not_full_waits_for_more(rig):
    made = rig(max_wait_s=LONG_S, max_batch_tokens=64)
    made.put("first", [[1] * 32])
    assert (made.engine.counts().waiting, made.body.began.empty()) == (1, True)
    made.put("second", [[2] * 32])
    assert {made.answer()[0] for _ in range(2)} == {"first", "second"}
    assert made.engine.counts().steps == 1


def test_a_batch_that_is_never_full_waits_no_longer_than_it_should(rig):
    made = rig(max_wait_s=0.01)
    made.put("key", [[1]])
    assert made.answer()[0] == "key"


def test_an_encoder_is_warmed_while_nothing_waits_and_by_one_thread(rig):
    made = rig(warm=5)
    made.put("key", [[1]])
    made.answer()
    while made.encoder.left_to_warm:
        time.sleep(0.001)
    made.put("more", [[2]])
    assert made.answer()[0] == "more"


def test_closing_drops_what_waits_and_closes_the_body_after_the_run(rig):
    made = rig(held=True)
    made.put("running", [[1]])
    made.body.began.get(timeout=LONG_S)
    made.put("waiting", [[2]])
    made.engine.close()
    assert not made.body.closed.is_set()
    made.body.turns.release()
    assert made.body.closed.wait(LONG_S)
    assert made.told.empty()  # the running one was dropped with its engine, too
