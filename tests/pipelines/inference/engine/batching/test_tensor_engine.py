"""The queue and the thread of tensor models, around a body that waits for the test."""

from __future__ import annotations

import queue
import threading

import numpy as np
import pytest
from patience import PATIENCE_S

from pipelines.base.errors import Overloaded, RequestError
from pipelines.inference.contracts.tensor_contract import TensorPort
from pipelines.inference.engine.batching.tensor_engine import TensorBatching, TensorEngine
from pipelines.inference.engine.interface.engine_contract import Identity, TensorRequest
from pipelines.values.node_values import Tensors

PORT = {"x": TensorPort("x", "int64", ())}


class Body:
    """Gives back what it is given, one run for each `turns.release()`; fails on negative numbers."""

    def __init__(self) -> None:
        self.turns = threading.Semaphore(0)
        self.began: queue.Queue[int] = queue.Queue()
        self.closed = threading.Event()

    def __call__(self, batch: Tensors) -> Tensors:
        self.began.put(int(batch["x"]))
        assert self.turns.acquire(timeout=PATIENCE_S)
        if batch["x"] < 0:
            raise RequestError("negative", "x")
        return Tensors(x=batch["x"], more=batch["x"])

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def body():
    return Body()


@pytest.fixture
def engine(body):
    made = TensorEngine(body, PORT, {**PORT, "more": PORT["x"]}, TensorBatching(max_waiting=2))
    yield made
    made.close()
    body.turns.release(10)
    assert body.closed.wait(PATIENCE_S)


@pytest.fixture
def told():
    return queue.Queue()


def put(engine, told, number, outputs=None):
    request = TensorRequest({"x": np.array(number)}, outputs, lambda *answer: told.put(answer))
    engine.submit(number, request)


def begin(engine, body, told, number):
    put(engine, told, number)
    assert body.began.get(timeout=PATIENCE_S) == number


def test_requests_are_run_one_by_one_as_they_came(engine, body, told):
    begin(engine, body, told, 3)
    put(engine, told, 1)
    put(engine, told, 2)
    assert (engine.counts().running, engine.counts().waiting) == (1, 2)
    body.turns.release(3)
    assert [told.get(timeout=PATIENCE_S)[0] for _ in range(3)] == [3, 1, 2]
    assert (engine.counts().steps, engine.counts().failed_steps) == (3, 0)


def test_what_runs_and_waits_is_shown(engine, body, told):
    begin(engine, body, told, 3)
    put(engine, told, 1)
    view = engine.view(lambda key: Identity(str(key), 1.5))
    assert (view.kind, view.block_map) == ("tensors", None)
    assert [(one.name, one.state) for one in view.sequences] == [("3", "running"), ("1", "waiting")]
    body.turns.release(2)


def test_only_so_many_may_wait(engine, body, told):
    begin(engine, body, told, 0)
    put(engine, told, 1)
    put(engine, told, 2)
    with pytest.raises(Overloaded, match="2 requests wait"):
        put(engine, told, 3)
    engine.cancel(1)
    put(engine, told, 3)
    body.turns.release(3)
    assert [told.get(timeout=PATIENCE_S)[0] for _ in range(3)] == [0, 2, 3]


def test_only_so_many_bytes_may_wait(engine, body, told, monkeypatch):
    monkeypatch.setattr(
        "pipelines.inference.engine.batching.tensor_engine.MAX_WAITING_BYTES", 15
    )  # a number takes 8
    begin(engine, body, told, 0)
    put(engine, told, 1)
    with pytest.raises(Overloaded, match="1 requests wait"):
        put(engine, told, 2)
    body.turns.release(2)
    assert [told.get(timeout=PATIENCE_S)[0] for _ in range(2)] == [0, 1]


def test_a_run_that_fails_is_followed_by_the_next(engine, body, told):
    begin(engine, body, told, -1)
    put(engine, told, 1)
    body.turns.release(2)
    key, error = told.get(timeout=PATIENCE_S)
    assert (key, str(error)) == (-1, "negative")
    assert told.get(timeout=PATIENCE_S)[1]["x"] == 1
    assert engine.counts().failed_steps == 1


def test_what_does_not_fit_is_refused_before_it_waits(engine, body, told):
    begin(engine, body, told, 0)
    with pytest.raises(RequestError, match="its type is float32") as caught:
        engine.submit("key", TensorRequest({"x": np.float32(1)}, None, told.put))
    assert caught.value.field == "x"
    with pytest.raises(RequestError, match="no output `mor`; did you mean `more`"):
        put(engine, told, 1, ["mor"])
    assert engine.counts().waiting == 0


def test_an_aborted_run_goes_on_to_its_end(engine, body, told):
    begin(engine, body, told, 0)
    engine.cancel(0)
    engine.cancel("nobody")
    put(engine, told, 1)
    assert body.began.empty()
    body.turns.release(2)
    assert told.get(timeout=PATIENCE_S)[0] == 1


def test_closing_drops_what_waits_and_closes_the_body_after_the_run(body, told):
    engine = TensorEngine(body, PORT, PORT, TensorBatching(max_waiting=2))
    begin(engine, body, told, 0)
    put(engine, told, 1)
    engine.close()
    assert not body.closed.is_set()
    body.turns.release(2)
    assert body.closed.wait(PATIENCE_S)
    assert told.empty()  # the running one was dropped with its engine, too
