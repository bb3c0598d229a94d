"""Requests for tensor models that run together: each gets what it would get alone, in its turn."""

from __future__ import annotations

import queue
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import PATIENCE_S

from pipelines.base.errors import RequestError
from pipelines.inference.contracts.tensor_contract import TensorPort
from pipelines.inference.engine.batching.tensor_engine import CannotJoin, TensorBatching, TensorEngine
from pipelines.inference.engine.interface.engine_contract import TensorRequest
from pipelines.telemetry.step_profile import TENSORS
from pipelines.values.node_values import Tensors
from pipelines.wire.requests import Origin

LONG_S = PATIENCE_S
INPUTS = {name: TensorPort(name, "int64", (None, None)) for name in ("x", "y")}
OUTPUTS = {"sum": TensorPort("sum", "int64", (None,)), "both": TensorPort("both", "int64", (None, None))}


class Body:
    """Adds each row of `x` and `y`; fails on runs with a negative number.

    One run for each `turns.release()` when a test holds it; `shapes` are those of `x` in each run.
    """

    def __init__(self, held: bool = False) -> None:
        self.held = held
        self.turns = threading.Semaphore(0)
        self.began: queue.Queue[np.ndarray] = queue.Queue()
        self.closed = threading.Event()
        self.shapes: list[tuple[int, ...]] = []
        self.rows_lost = 0

    def __call__(self, batch: Tensors) -> Tensors:
        self.began.put(batch["x"])
        assert not self.held or self.turns.acquire(timeout=LONG_S)
        self.shapes.append(batch["x"].shape)
        if min(batch["x"].min(initial=0), batch["y"].min(initial=0)) < 0:
            raise RequestError("negative", "x")
        both = np.concatenate([batch["x"], np.broadcast_to(batch["y"], batch["x"].shape)], axis=1)
        return Tensors(sum=both.sum(axis=1)[self.rows_lost :], both=both)

    def close(self) -> None:
        self.closed.set()


class Rig:
    def __init__(self, held: bool = False, clock=None, **batching) -> None:
        self.body = Body(held)
        self.told: queue.Queue = queue.Queue()
        options = {} if clock is None else {"clock": clock}
        self.engine = TensorEngine(self.body, INPUTS, OUTPUTS, TensorBatching(**batching), **options)

    def put(self, key, x, y=None, tenant="", outputs=None) -> None:
        x = np.array(x, np.int64)
        inputs = {"x": x, "y": x if y is None else np.array(y, np.int64)}
        origin = Origin(tenant=tenant)
        self.engine.submit(key, TensorRequest(inputs, outputs, lambda *answer: self.told.put(answer), origin))

    def hold(self) -> None:
        """Begin a run of its own kind, so that what is put next waits."""
        self.put("first", [[0] * 9])
        self.body.began.get(timeout=LONG_S)

    def answers(self, count: int) -> dict:
        return dict(self.told.get(timeout=LONG_S) for _ in range(count))

    def close(self) -> None:
        self.engine.close()
        self.body.turns.release(100)
        assert self.body.closed.wait(LONG_S)


@pytest.fixture
def rig():
    rigs = []

    def make(**settings):
        rigs.append(Rig(**settings))
        return rigs[-1]

    yield make
    for each in rigs:
        each.close()


ROWS = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.lists(st.integers(-1, 9), min_size=width, max_size=width), max_size=4).map(
        lambda rows: np.array(rows, np.int64).reshape(-1, width)
    )
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=12), st.sampled_from([1, 4, 64]), st.sampled_from([1, 3]))
def test_each_request_gets_what_it_gets_alone(requests, max_batch, max_runs):
    running_rig = Rig(held=True, max_batch=max_batch, num_runs=max_runs)
    try:
        running_rig.body.turns.release(1000)
        for key, x in enumerate(requests):
            running_rig.put(key, x, tenant=str(key % 3))
        for key, answer in running_rig.answers(len(requests)).items():
            x = requests[key]
            if x.min(initial=0) < 0:
                assert str(answer) == "negative"
            else:
                np.testing.assert_array_equal(answer["sum"], 2 * x.sum(axis=1))
                np.testing.assert_array_equal(answer["both"], np.concatenate([x, x], axis=1))
        assert (running_rig.engine.counts().running, running_rig.engine.counts().waiting) == (0, 0)
    finally:
        running_rig.close()


def test_requests_of_one_shape_run_together_up_to_the_largest_batch(rig):
    running_rig = rig(held=True, max_batch=4)
    running_rig.hold()
    for key, rows in enumerate([2, 1, 2, 1, 6, 1]):
        running_rig.put(key, [[key, key]] * rows)
    running_rig.put("other", [[1, 2, 3]])
    running_rig.put("not equal", [[1, 2]] * 2, [[3, 4]])
    running_rig.body.turns.release(9)
    running_rig.answers(8)
    assert running_rig.body.shapes == [(1, 9), (4, 2), (3, 2), (6, 2), (1, 3), (2, 2)]
    (steps,) = running_rig.engine.profile.summary()
    assert (steps.kind, steps.steps, steps.sequences) == (TENSORS, 6, 9)
    waits = [[count for count, _ in ran.waits] for ran in running_rig.engine.finished_batches]
    assert waits == [[1], [1, 1, 1], [1, 1], [1], [1], [1]]


def test_each_request_gets_the_outputs_that_it_names(rig):
    made = rig(held=True, max_batch=4)
    made.hold()
    made.put(0, [[1, 2]], outputs=["sum"])
    made.put(1, [[3, 4]], outputs=["both"])
    made.body.turns.release(2)
    answers = made.answers(3)
    assert (answers[0].keys(), answers[1]["both"].tolist()) == ({"sum"}, [[3, 4, 3, 4]])
    assert made.body.shapes[1] == (2, 2)


def test_a_request_that_breaks_its_batch_fails_alone(rig, caplog):
    running_rig = rig(held=True, max_batch=8)
    running_rig.hold()
    for key in range(6):
        running_rig.put(key, [[-1 if key == 4 else key]])
    running_rig.body.turns.release(1)
    running_rig.body.began.get(timeout=LONG_S)  # all of them
    running_rig.engine.cancel(0)
    running_rig.body.turns.release(9)
    answers = running_rig.answers(6)
    assert str(answers.pop(4)) == "negative"
    assert {key: answer["sum"].tolist() for key, answer in answers.items() if key != "first"} == {
        key: [2 * key] for key in (1, 2, 3, 5)
    }
    assert running_rig.told.empty()
    assert "run again in halves" in caplog.text


def test_a_tenant_with_many_requests_delays_another_by_one_run(rig):
    running_rig = rig(held=True, max_batch=2)
    running_rig.hold()
    for key in range(20):
        running_rig.put(key, [[key]], tenant="many")
    running_rig.body.turns.release(2)
    running_rig.body.began.get(timeout=LONG_S)
    running_rig.body.began.get(timeout=LONG_S)
    running_rig.put("one", [[1]], tenant="one")
    running_rig.body.turns.release(2)
    assert "one" in running_rig.answers(7)


def test_what_waits_of_an_aborted_request_never_runs(rig):
    made = rig(held=True, max_batch=4)
    made.hold()
    for key in range(3):
        made.put(key, [[key]])
    made.engine.cancel(1)
    assert made.engine.counts().waiting == 2
    made.body.turns.release(9)
    assert made.answers(3).keys() == {"first", 0, 2}
    assert made.body.shapes[1] == (2, 1)


def test_a_run_that_is_not_full_waits_for_more(rig):
    made = rig(max_batch=2, max_wait_s=LONG_S)
    made.put(0, [[1]])
    assert (made.engine.counts().waiting, made.body.began.empty()) == (1, True)
    made.put(1, [[2]])
    made.answers(2)
    assert made.body.shapes == [(2, 1)]


def test_a_run_waits_no_longer_than_it_should(rig):
    made = rig(max_batch=64, max_wait_s=0.01)
    made.put(0, [[1]])
    assert made.answers(1)[0]["sum"].tolist() == [2]


def test_several_runs_take_place_at_once_and_the_last_thread_closes_the_body(rig):
    running_rig = rig(held=True, num_runs=3)
    for key in range(5):
        running_rig.put(key, [[key]])
    for _ in range(3):
        running_rig.body.began.get(timeout=LONG_S)
    counts = running_rig.engine.counts()
    assert (counts.running, counts.waiting) == (3, 2)
    running_rig.engine.close()
    running_rig.body.turns.release(2)
    assert not running_rig.body.closed.wait(0.05)


def test_an_output_without_the_rows_of_its_inputs_is_refused_by_name(rig):
    made = rig(max_batch=2)
    made.body.rows_lost = 1
    made.put(0, [[1], [2]])
    error = made.answers(1)[0]
    assert isinstance(error, CannotJoin)
    assert str(error).startswith("The output `sum` is of shape [1] for inputs of 2 rows")


@pytest.mark.parametrize("shape", [(), (1, None), (3,)])
@pytest.mark.parametrize("kind", ["input", "output"])
def test_a_first_length_that_is_not_free_is_refused_by_name(shape, kind):
    ports = {"z": TensorPort("z", "int64", shape)}
    given, taken = (ports, OUTPUTS) if kind == "input" else (INPUTS, ports)
    with pytest.raises(
        ValueError, match=f"that of the {kind} `z`, int64.* is not free; set `batch_size: -1`"
    ):
        TensorEngine(Body(), given, taken, TensorBatching(max_batch=2))
